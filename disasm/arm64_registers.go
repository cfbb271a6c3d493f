package disasm

import (
	"strings"
	"sync"
)

// The names of system registers and operations of AArch64: for each group, as
// "S3_0_C1_C0" or, for operations, "S1_0_C7_C5", the last number of the
// encoding and the name.
//
// Source: Arm Architecture Reference Manual, D19 (registers) and C5
// (operations).
const (
	arm64RegisterNames = `s2_0_c0_c0 2 osdtrrx_el1 4 dbgbvr0_el1 5 dbgbcr0_el1 6 dbgwvr0_el1 7 dbgwcr0_el1
s2_0_c0_c1 4 dbgbvr1_el1 5 dbgbcr1_el1 6 dbgwvr1_el1 7 dbgwcr1_el1
s2_0_c0_c2 0 mdccint_el1 2 mdscr_el1 4 dbgbvr2_el1 5 dbgbcr2_el1 6 dbgwvr2_el1 7 dbgwcr2_el1
s2_0_c0_c3 2 osdtrtx_el1 4 dbgbvr3_el1 5 dbgbcr3_el1 6 dbgwvr3_el1 7 dbgwcr3_el1
s2_0_c0_c4 4 dbgbvr4_el1 5 dbgbcr4_el1 6 dbgwvr4_el1 7 dbgwcr4_el1
s2_0_c0_c5 4 dbgbvr5_el1 5 dbgbcr5_el1 6 dbgwvr5_el1 7 dbgwcr5_el1
s2_0_c0_c6 2 oseccr_el1 4 dbgbvr6_el1 5 dbgbcr6_el1 6 dbgwvr6_el1 7 dbgwcr6_el1
s2_0_c0_c7 4 dbgbvr7_el1 5 dbgbcr7_el1 6 dbgwvr7_el1 7 dbgwcr7_el1
s2_0_c0_c8 4 dbgbvr8_el1 5 dbgbcr8_el1 6 dbgwvr8_el1 7 dbgwcr8_el1
s2_0_c0_c9 4 dbgbvr9_el1 5 dbgbcr9_el1 6 dbgwvr9_el1 7 dbgwcr9_el1
s2_0_c0_c10 4 dbgbvr10_el1 5 dbgbcr10_el1 6 dbgwvr10_el1 7 dbgwcr10_el1
s2_0_c0_c11 4 dbgbvr11_el1 5 dbgbcr11_el1 6 dbgwvr11_el1 7 dbgwcr11_el1
s2_0_c0_c12 4 dbgbvr12_el1 5 dbgbcr12_el1 6 dbgwvr12_el1 7 dbgwcr12_el1
s2_0_c0_c13 4 dbgbvr13_el1 5 dbgbcr13_el1 6 dbgwvr13_el1 7 dbgwcr13_el1
s2_0_c0_c14 4 dbgbvr14_el1 5 dbgbcr14_el1 6 dbgwvr14_el1 7 dbgwcr14_el1
s2_0_c0_c15 4 dbgbvr15_el1 5 dbgbcr15_el1 6 dbgwvr15_el1 7 dbgwcr15_el1
s2_0_c1_c0 0 mdrar_el1 4 oslar_el1
s2_0_c1_c1 4 oslsr_el1
s2_0_c1_c3 4 osdlr_el1
s2_0_c1_c4 4 dbgprcr_el1
s2_0_c7_c8 6 dbgclaimset_el1
s2_0_c7_c9 6 dbgclaimclr_el1
s2_0_c7_c14 6 dbgauthstatus_el1
s2_0_c8_c0 0 csrcr_el1 1 csrptr_el1 3 csrptridx_el1
s2_1_c0_c0 1 trctraceidr 2 trcvictlr 4 trcseqevr0 5 trccntrldvr0 6 trcidr8 7 trcimspec0
s2_1_c0_c1 0 trcprgctlr 1 trcqctlr 2 trcviiectlr 4 trcseqevr1 5 trccntrldvr1 6 trcidr9 7 trcimspec1
s2_1_c0_c2 0 trcprocselr 2 trcvissctlr 4 trcseqevr2 5 trccntrldvr2 6 trcidr10 7 trcimspec2
s2_1_c0_c3 0 trcstatr 2 trcvipcssctlr 5 trccntrldvr3 6 trcidr11 7 trcimspec3
s2_1_c0_c4 0 trcconfigr 5 trccntctlr0 6 trcidr12 7 trcimspec4
s2_1_c0_c5 5 trccntctlr1 6 trcidr13 7 trcimspec5
s2_1_c0_c6 0 trcauxctlr 4 trcseqrstevr 5 trccntctlr2 7 trcimspec6
s2_1_c0_c7 4 trcseqstr 5 trccntctlr3 7 trcimspec7
s2_1_c0_c8 0 trceventctl0r 2 trcvdctlr 4 trcextinselr0 5 trccntvr0 7 trcidr0
s2_1_c0_c9 0 trceventctl1r 2 trcvdsacctlr 4 trcextinselr1 5 trccntvr1 7 trcidr1
s2_1_c0_c10 0 trcrsr 2 trcvdarcctlr 4 trcextinselr2 5 trccntvr2 7 trcidr2
s2_1_c0_c11 0 trcstallctlr 4 trcextinselr3 5 trccntvr3 7 trcidr3
s2_1_c0_c12 0 trctsctlr 7 trcidr4
s2_1_c0_c13 0 trcsyncpr 7 trcidr5
s2_1_c0_c14 0 trcccctlr 7 trcidr6
s2_1_c0_c15 0 trcbbctlr 7 trcidr7
s2_1_c1_c0 1 trcrsctlr16 2 trcssccr0 3 trcsspcicr0 4 trcoslar
s2_1_c1_c1 1 trcrsctlr17 2 trcssccr1 3 trcsspcicr1 4 trcoslsr
s2_1_c1_c2 0 trcrsctlr2 1 trcrsctlr18 2 trcssccr2 3 trcsspcicr2
s2_1_c1_c3 0 trcrsctlr3 1 trcrsctlr19 2 trcssccr3 3 trcsspcicr3
s2_1_c1_c4 0 trcrsctlr4 1 trcrsctlr20 2 trcssccr4 3 trcsspcicr4 4 trcpdcr
s2_1_c1_c5 0 trcrsctlr5 1 trcrsctlr21 2 trcssccr5 3 trcsspcicr5 4 trcpdsr
s2_1_c1_c6 0 trcrsctlr6 1 trcrsctlr22 2 trcssccr6 3 trcsspcicr6
s2_1_c1_c7 0 trcrsctlr7 1 trcrsctlr23 2 trcssccr7 3 trcsspcicr7
s2_1_c1_c8 0 trcrsctlr8 1 trcrsctlr24 2 trcsscsr0
s2_1_c1_c9 0 trcrsctlr9 1 trcrsctlr25 2 trcsscsr1
s2_1_c1_c10 0 trcrsctlr10 1 trcrsctlr26 2 trcsscsr2
s2_1_c1_c11 0 trcrsctlr11 1 trcrsctlr27 2 trcsscsr3
s2_1_c1_c12 0 trcrsctlr12 1 trcrsctlr28 2 trcsscsr4
s2_1_c1_c13 0 trcrsctlr13 1 trcrsctlr29 2 trcsscsr5
s2_1_c1_c14 0 trcrsctlr14 1 trcrsctlr30 2 trcsscsr6
s2_1_c1_c15 0 trcrsctlr15 1 trcrsctlr31 2 trcsscsr7
s2_1_c2_c0 0 trcacvr0 1 trcacvr8 2 trcacatr0 3 trcacatr8 4 trcdvcvr0 5 trcdvcvr4 6 trcdvcmr0 7 trcdvcmr4
s2_1_c2_c2 0 trcacvr1 1 trcacvr9 2 trcacatr1 3 trcacatr9
s2_1_c2_c4 0 trcacvr2 1 trcacvr10 2 trcacatr2 3 trcacatr10 4 trcdvcvr1 5 trcdvcvr5 6 trcdvcmr1 7 trcdvcmr5
s2_1_c2_c6 0 trcacvr3 1 trcacvr11 2 trcacatr3 3 trcacatr11
s2_1_c2_c8 0 trcacvr4 1 trcacvr12 2 trcacatr4 3 trcacatr12 4 trcdvcvr2 5 trcdvcvr6 6 trcdvcmr2 7 trcdvcmr6
s2_1_c2_c10 0 trcacvr5 1 trcacvr13 2 trcacatr5 3 trcacatr13
s2_1_c2_c12 0 trcacvr6 1 trcacvr14 2 trcacatr6 3 trcacatr14 4 trcdvcvr3 5 trcdvcvr7 6 trcdvcmr3 7 trcdvcmr7
s2_1_c2_c14 0 trcacvr7 1 trcacvr15 2 trcacatr7 3 trcacatr15
s2_1_c3_c0 0 trccidcvr0 1 trcvmidcvr0 2 trccidcctlr0
s2_1_c3_c1 2 trccidcctlr1
s2_1_c3_c2 0 trccidcvr1 1 trcvmidcvr1 2 trcvmidcctlr0
s2_1_c3_c3 2 trcvmidcctlr1
s2_1_c3_c4 0 trccidcvr2 1 trcvmidcvr2
s2_1_c3_c6 0 trccidcvr3 1 trcvmidcvr3
s2_1_c3_c8 0 trccidcvr4 1 trcvmidcvr4
s2_1_c3_c10 0 trccidcvr5 1 trcvmidcvr5
s2_1_c3_c12 0 trccidcvr6 1 trcvmidcvr6
s2_1_c3_c14 0 trccidcvr7 1 trcvmidcvr7
s2_1_c7_c0 4 trcitctrl
s2_1_c7_c2 7 trcdevid
s2_1_c7_c3 7 trcdevtype
s2_1_c7_c4 7 trcpidr4
s2_1_c7_c5 7 trcpidr5
s2_1_c7_c6 7 trcpidr6
s2_1_c7_c7 7 trcpidr7
s2_1_c7_c8 6 trcclaimset 7 trcpidr0
s2_1_c7_c9 6 trcclaimclr 7 trcpidr1
s2_1_c7_c10 6 trcdevaff0 7 trcpidr2
s2_1_c7_c11 6 trcdevaff1 7 trcpidr3
s2_1_c7_c12 6 trclar 7 trccidr0
s2_1_c7_c13 6 trclsr 7 trccidr1
s2_1_c7_c14 6 trcauthstatus 7 trccidr2
s2_1_c7_c15 6 trcdevarch 7 trccidr3
s2_1_c8_c0 0 brbinf0_el1 1 brbsrc0_el1 2 brbtgt0_el1 4 brbinf16_el1 5 brbsrc16_el1 6 brbtgt16_el1
s2_1_c8_c1 0 brbinf1_el1 1 brbsrc1_el1 2 brbtgt1_el1 4 brbinf17_el1 5 brbsrc17_el1 6 brbtgt17_el1
s2_1_c8_c2 0 brbinf2_el1 1 brbsrc2_el1 2 brbtgt2_el1 4 brbinf18_el1 5 brbsrc18_el1 6 brbtgt18_el1
s2_1_c8_c3 0 brbinf3_el1 1 brbsrc3_el1 2 brbtgt3_el1 4 brbinf19_el1 5 brbsrc19_el1 6 brbtgt19_el1
s2_1_c8_c4 0 brbinf4_el1 1 brbsrc4_el1 2 brbtgt4_el1 4 brbinf20_el1 5 brbsrc20_el1 6 brbtgt20_el1
s2_1_c8_c5 0 brbinf5_el1 1 brbsrc5_el1 2 brbtgt5_el1 4 brbinf21_el1 5 brbsrc21_el1 6 brbtgt21_el1
s2_1_c8_c6 0 brbinf6_el1 1 brbsrc6_el1 2 brbtgt6_el1 4 brbinf22_el1 5 brbsrc22_el1 6 brbtgt22_el1
s2_1_c8_c7 0 brbinf7_el1 1 brbsrc7_el1 2 brbtgt7_el1 4 brbinf23_el1 5 brbsrc23_el1 6 brbtgt23_el1
s2_1_c8_c8 0 brbinf8_el1 1 brbsrc8_el1 2 brbtgt8_el1 4 brbinf24_el1 5 brbsrc24_el1 6 brbtgt24_el1
s2_1_c8_c9 0 brbinf9_el1 1 brbsrc9_el1 2 brbtgt9_el1 4 brbinf25_el1 5 brbsrc25_el1 6 brbtgt25_el1
s2_1_c8_c10 0 brbinf10_el1 1 brbsrc10_el1 2 brbtgt10_el1 4 brbinf26_el1 5 brbsrc26_el1 6 brbtgt26_el1
s2_1_c8_c11 0 brbinf11_el1 1 brbsrc11_el1 2 brbtgt11_el1 4 brbinf27_el1 5 brbsrc27_el1 6 brbtgt27_el1
s2_1_c8_c12 0 brbinf12_el1 1 brbsrc12_el1 2 brbtgt12_el1 4 brbinf28_el1 5 brbsrc28_el1 6 brbtgt28_el1
s2_1_c8_c13 0 brbinf13_el1 1 brbsrc13_el1 2 brbtgt13_el1 4 brbinf29_el1 5 brbsrc29_el1 6 brbtgt29_el1
s2_1_c8_c14 0 brbinf14_el1 1 brbsrc14_el1 2 brbtgt14_el1 4 brbinf30_el1 5 brbsrc30_el1 6 brbtgt30_el1
s2_1_c8_c15 0 brbinf15_el1 1 brbsrc15_el1 2 brbtgt15_el1 4 brbinf31_el1 5 brbsrc31_el1 6 brbtgt31_el1
s2_1_c9_c0 0 brbcr_el1 1 brbfcr_el1 2 brbts_el1
s2_1_c9_c1 0 brbinfinj_el1 1 brbsrcinj_el1 2 brbtgtinj_el1
s2_1_c9_c2 0 brbidr0_el1
s2_2_c0_c0 0 teecr32_el1
s2_2_c1_c0 0 teehbr32_el1
s2_3_c0_c1 0 mdccsr_el0
s2_3_c0_c4 0 dbgdtr_el0
s2_3_c0_c5 0 dbgdtrrx_el0
s2_3_c8_c0 0 csrcr_el0 1 csrptr_el0 2 csridr_el0 3 csrptridx_el0
s2_4_c0_c7 0 dbgvcr32_el2
s2_4_c8_c0 0 csrcr_el2 1 csrptr_el2 3 csrptridx_el2
s2_4_c9_c0 0 brbcr_el2
s2_5_c8_c0 0 csrcr_el12 1 csrptr_el12
s2_5_c9_c0 0 brbcr_el12
s3_0_c0_c0 0 midr_el1 4 mpuir_el1 5 mpidr_el1 6 revidr_el1
s3_0_c0_c1 0 id_pfr0_el1 1 id_pfr1_el1 2 id_dfr0_el1 3 id_afr0_el1 4 id_mmfr0_el1 5 id_mmfr1_el1 6 id_mmfr2_el1 7 id_mmfr3_el1
s3_0_c0_c2 0 id_isar0_el1 1 id_isar1_el1 2 id_isar2_el1 3 id_isar3_el1 4 id_isar4_el1 5 id_isar5_el1 6 id_mmfr4_el1 7 id_isar6_el1
s3_0_c0_c3 0 mvfr0_el1 1 mvfr1_el1 2 mvfr2_el1 4 id_pfr2_el1 5 id_dfr1_el1 6 id_mmfr5_el1
s3_0_c0_c4 0 id_aa64pfr0_el1 1 id_aa64pfr1_el1 4 id_aa64zfr0_el1 5 id_aa64smfr0_el1
s3_0_c0_c5 0 id_aa64dfr0_el1 1 id_aa64dfr1_el1 4 id_aa64afr0_el1 5 id_aa64afr1_el1
s3_0_c0_c6 0 id_aa64isar0_el1 1 id_aa64isar1_el1 2 id_aa64isar2_el1
s3_0_c0_c7 0 id_aa64mmfr0_el1 1 id_aa64mmfr1_el1 2 id_aa64mmfr2_el1
s3_0_c1_c0 0 sctlr_el1 1 actlr_el1 2 cpacr_el1 5 rgsr_el1 6 gcr_el1
s3_0_c1_c2 0 zcr_el1 1 trfcr_el1 4 smpri_el1 6 smcr_el1
s3_0_c2_c0 0 ttbr0_el1 1 ttbr1_el1 2 tcr_el1
s3_0_c2_c1 0 apiakeylo_el1 1 apiakeyhi_el1 2 apibkeylo_el1 3 apibkeyhi_el1
s3_0_c2_c2 0 apdakeylo_el1 1 apdakeyhi_el1 2 apdbkeylo_el1 3 apdbkeyhi_el1
s3_0_c2_c3 0 apgakeylo_el1 1 apgakeyhi_el1
s3_0_c4_c0 0 spsr_el1 1 elr_el1
s3_0_c4_c1 0 sp_el0
s3_0_c4_c2 0 spsel 2 currentel 3 pan 4 uao
s3_0_c4_c3 0 allint
s3_0_c4_c6 0 icc_pmr_el1
s3_0_c5_c1 0 afsr0_el1 1 afsr1_el1
s3_0_c5_c2 0 esr_el1
s3_0_c5_c3 0 erridr_el1 1 errselr_el1
s3_0_c5_c4 0 erxfr_el1 1 erxctlr_el1 2 erxstatus_el1 3 erxaddr_el1 4 erxpfgf_el1 5 erxpfgctl_el1 6 erxpfgcdn_el1
s3_0_c5_c5 0 erxmisc0_el1 1 erxmisc1_el1 2 erxmisc2_el1 3 erxmisc3_el1
s3_0_c5_c6 0 tfsr_el1 1 tfsre0_el1
s3_0_c6_c0 0 far_el1
s3_0_c6_c1 1 prenr_el1
s3_0_c6_c2 1 prselr_el1
s3_0_c6_c8 0 prbar_el1 1 prlar_el1 4 prbar1_el1 5 prlar1_el1
s3_0_c6_c9 0 prbar2_el1 1 prlar2_el1 4 prbar3_el1 5 prlar3_el1
s3_0_c6_c10 0 prbar4_el1 1 prlar4_el1 4 prbar5_el1 5 prlar5_el1
s3_0_c6_c11 0 prbar6_el1 1 prlar6_el1 4 prbar7_el1 5 prlar7_el1
s3_0_c6_c12 0 prbar8_el1 1 prlar8_el1 4 prbar9_el1 5 prlar9_el1
s3_0_c6_c13 0 prbar10_el1 1 prlar10_el1 4 prbar11_el1 5 prlar11_el1
s3_0_c6_c14 0 prbar12_el1 1 prlar12_el1 4 prbar13_el1 5 prlar13_el1
s3_0_c6_c15 0 prbar14_el1 1 prlar14_el1 4 prbar15_el1 5 prlar15_el1
s3_0_c7_c4 0 par_el1
s3_0_c9_c9 0 pmscr_el1 1 pmsnevfr_el1 2 pmsicr_el1 3 pmsirr_el1 4 pmsfcr_el1 5 pmsevfr_el1 6 pmslatfr_el1 7 pmsidr_el1
s3_0_c9_c10 0 pmblimitr_el1 1 pmbptr_el1 3 pmbsr_el1 7 pmbidr_el1
s3_0_c9_c11 0 trblimitr_el1 1 trbptr_el1 2 trbbaser_el1 3 trbsr_el1 4 trbmar_el1 6 trbtrg_el1 7 trbidr_el1
s3_0_c9_c14 1 pmintenset_el1 2 pmintenclr_el1 6 pmmir_el1
s3_0_c10_c2 0 mair_el1
s3_0_c10_c3 0 amair_el1
s3_0_c10_c4 0 lorsa_el1 1 lorea_el1 2 lorn_el1 3 lorc_el1 4 mpamidr_el1 7 lorid_el1
s3_0_c10_c5 0 mpam1_el1 1 mpam0_el1 3 mpamsm_el1
s3_0_c12_c0 0 vbar_el1 1 rvbar_el1 2 rmr_el1
s3_0_c12_c1 0 isr_el1 1 disr_el1
s3_0_c12_c8 0 icc_iar0_el1 1 icc_eoir0_el1 2 icc_hppir0_el1 3 icc_bpr0_el1 4 icc_ap0r0_el1 5 icc_ap0r1_el1 6 icc_ap0r2_el1 7 icc_ap0r3_el1
s3_0_c12_c9 0 icc_ap1r0_el1 1 icc_ap1r1_el1 2 icc_ap1r2_el1 3 icc_ap1r3_el1 5 icc_nmiar1_el1
s3_0_c12_c11 1 icc_dir_el1 3 icc_rpr_el1 5 icc_sgi1r_el1 6 icc_asgi1r_el1 7 icc_sgi0r_el1
s3_0_c12_c12 0 icc_iar1_el1 1 icc_eoir1_el1 2 icc_hppir1_el1 3 icc_bpr1_el1 4 icc_ctlr_el1 5 icc_sre_el1 6 icc_igrpen0_el1 7 icc_igrpen1_el1
s3_0_c13_c0 1 contextidr_el1 4 tpidr_el1 5 accdata_el1 7 scxtnum_el1
s3_0_c14_c1 0 cntkctl_el1
s3_1_c0_c0 0 ccsidr_el1 1 clidr_el1 2 ccsidr2_el1 4 gmid_el1 6 smidr_el1 7 aidr_el1
s3_2_c0_c0 0 csselr_el1
s3_3_c0_c0 1 ctr_el0 7 dczid_el0
s3_3_c2_c4 0 rndr 1 rndrrs
s3_3_c4_c2 0 nzcv 1 daif 2 svcr 5 dit 6 ssbs 7 tco
s3_3_c4_c4 0 fpcr 1 fpsr
s3_3_c4_c5 0 dspsr_el0 1 dlr_el0
s3_3_c9_c12 0 pmcr_el0 1 pmcntenset_el0 2 pmcntenclr_el0 3 pmovsclr_el0 4 pmswinc_el0 5 pmselr_el0 6 pmceid0_el0 7 pmceid1_el0
s3_3_c9_c13 0 pmccntr_el0 1 pmxevtyper_el0 2 pmxevcntr_el0
s3_3_c9_c14 0 pmuserenr_el0 3 pmovsset_el0
s3_3_c13_c0 2 tpidr_el0 3 tpidrro_el0 5 tpidr2_el0 7 scxtnum_el0
s3_3_c13_c2 0 amcr_el0 1 amcfgr_el0 2 amcgcr_el0 3 amuserenr_el0 4 amcntenclr0_el0 5 amcntenset0_el0 6 amcg1idr_el0
s3_3_c13_c3 0 amcntenclr1_el0 1 amcntenset1_el0
s3_3_c13_c4 0 amevcntr00_el0 1 amevcntr01_el0 2 amevcntr02_el0 3 amevcntr03_el0
s3_3_c13_c6 0 amevtyper00_el0 1 amevtyper01_el0 2 amevtyper02_el0 3 amevtyper03_el0
s3_3_c13_c12 0 amevcntr10_el0 1 amevcntr11_el0 2 amevcntr12_el0 3 amevcntr13_el0 4 amevcntr14_el0 5 amevcntr15_el0 6 amevcntr16_el0 7 amevcntr17_el0
s3_3_c13_c13 0 amevcntr18_el0 1 amevcntr19_el0 2 amevcntr110_el0 3 amevcntr111_el0 4 amevcntr112_el0 5 amevcntr113_el0 6 amevcntr114_el0 7 amevcntr115_el0
s3_3_c13_c14 0 amevtyper10_el0 1 amevtyper11_el0 2 amevtyper12_el0 3 amevtyper13_el0 4 amevtyper14_el0 5 amevtyper15_el0 6 amevtyper16_el0 7 amevtyper17_el0
s3_3_c13_c15 0 amevtyper18_el0 1 amevtyper19_el0 2 amevtyper110_el0 3 amevtyper111_el0 4 amevtyper112_el0 5 amevtyper113_el0 6 amevtyper114_el0 7 amevtyper115_el0
s3_3_c14_c0 0 cntfrq_el0 1 cntpct_el0 2 cntvct_el0 5 cntpctss_el0 6 cntvctss_el0
s3_3_c14_c2 0 cntp_tval_el0 1 cntp_ctl_el0 2 cntp_cval_el0
s3_3_c14_c3 0 cntv_tval_el0 1 cntv_ctl_el0 2 cntv_cval_el0
s3_3_c14_c8 0 pmevcntr0_el0 1 pmevcntr1_el0 2 pmevcntr2_el0 3 pmevcntr3_el0 4 pmevcntr4_el0 5 pmevcntr5_el0 6 pmevcntr6_el0 7 pmevcntr7_el0
s3_3_c14_c9 0 pmevcntr8_el0 1 pmevcntr9_el0 2 pmevcntr10_el0 3 pmevcntr11_el0 4 pmevcntr12_el0 5 pmevcntr13_el0 6 pmevcntr14_el0 7 pmevcntr15_el0
s3_3_c14_c10 0 pmevcntr16_el0 1 pmevcntr17_el0 2 pmevcntr18_el0 3 pmevcntr19_el0 4 pmevcntr20_el0 5 pmevcntr21_el0 6 pmevcntr22_el0 7 pmevcntr23_el0
s3_3_c14_c11 0 pmevcntr24_el0 1 pmevcntr25_el0 2 pmevcntr26_el0 3 pmevcntr27_el0 4 pmevcntr28_el0 5 pmevcntr29_el0 6 pmevcntr30_el0
s3_3_c14_c12 0 pmevtyper0_el0 1 pmevtyper1_el0 2 pmevtyper2_el0 3 pmevtyper3_el0 4 pmevtyper4_el0 5 pmevtyper5_el0 6 pmevtyper6_el0 7 pmevtyper7_el0
s3_3_c14_c13 0 pmevtyper8_el0 1 pmevtyper9_el0 2 pmevtyper10_el0 3 pmevtyper11_el0 4 pmevtyper12_el0 5 pmevtyper13_el0 6 pmevtyper14_el0 7 pmevtyper15_el0
s3_3_c14_c14 0 pmevtyper16_el0 1 pmevtyper17_el0 2 pmevtyper18_el0 3 pmevtyper19_el0 4 pmevtyper20_el0 5 pmevtyper21_el0 6 pmevtyper22_el0 7 pmevtyper23_el0
s3_3_c14_c15 0 pmevtyper24_el0 1 pmevtyper25_el0 2 pmevtyper26_el0 3 pmevtyper27_el0 4 pmevtyper28_el0 5 pmevtyper29_el0 6 pmevtyper30_el0 7 pmccfiltr_el0
s3_4_c0_c0 0 vpidr_el2 4 mpuir_el2 5 vmpidr_el2
s3_4_c1_c0 0 sctlr_el2 1 actlr_el2
s3_4_c1_c1 0 hcr_el2 1 mdcr_el2 2 cptr_el2 3 hstr_el2 4 hfgrtr_el2 5 hfgwtr_el2 6 hfgitr_el2 7 hacr_el2
s3_4_c1_c2 0 zcr_el2 1 trfcr_el2 2 hcrx_el2 5 smprimap_el2 6 smcr_el2
s3_4_c1_c3 1 sder32_el2
s3_4_c2_c0 0 ttbr0_el2 1 ttbr1_el2 2 tcr_el2
s3_4_c2_c1 0 vttbr_el2 2 vtcr_el2
s3_4_c2_c2 0 vncr_el2
s3_4_c2_c6 0 vsttbr_el2 2 vstcr_el2
s3_4_c3_c0 0 dacr32_el2
s3_4_c3_c1 4 hdfgrtr_el2 5 hdfgwtr_el2 6 hafgrtr_el2
s3_4_c4_c0 0 spsr_el2 1 elr_el2
s3_4_c4_c1 0 sp_el1
s3_4_c4_c3 0 spsr_irq 1 spsr_abt 2 spsr_und 3 spsr_fiq
s3_4_c5_c0 1 ifsr32_el2
s3_4_c5_c1 0 afsr0_el2 1 afsr1_el2
s3_4_c5_c2 0 esr_el2 3 vsesr_el2
s3_4_c5_c3 0 fpexc32_el2
s3_4_c5_c6 0 tfsr_el2
s3_4_c6_c0 0 far_el2 4 hpfar_el2
s3_4_c6_c1 1 prenr_el2
s3_4_c6_c2 1 prselr_el2
s3_4_c6_c8 0 prbar_el2 1 prlar_el2 4 prbar1_el2 5 prlar1_el2
s3_4_c6_c9 0 prbar2_el2 1 prlar2_el2 4 prbar3_el2 5 prlar3_el2
s3_4_c6_c10 0 prbar4_el2 1 prlar4_el2 4 prbar5_el2 5 prlar5_el2
s3_4_c6_c11 0 prbar6_el2 1 prlar6_el2 4 prbar7_el2 5 prlar7_el2
s3_4_c6_c12 0 prbar8_el2 1 prlar8_el2 4 prbar9_el2 5 prlar9_el2
s3_4_c6_c13 0 prbar10_el2 1 prlar10_el2 4 prbar11_el2 5 prlar11_el2
s3_4_c6_c14 0 prbar12_el2 1 prlar12_el2 4 prbar13_el2 5 prlar13_el2
s3_4_c6_c15 0 prbar14_el2 1 prlar14_el2 4 prbar15_el2 5 prlar15_el2
s3_4_c9_c9 0 pmscr_el2
s3_4_c10_c2 0 mair_el2
s3_4_c10_c3 0 amair_el2
s3_4_c10_c4 0 mpamhcr_el2 1 mpamvpmv_el2
s3_4_c10_c5 0 mpam2_el2
s3_4_c10_c6 0 mpamvpm0_el2 1 mpamvpm1_el2 2 mpamvpm2_el2 3 mpamvpm3_el2 4 mpamvpm4_el2 5 mpamvpm5_el2 6 mpamvpm6_el2 7 mpamvpm7_el2
s3_4_c12_c0 0 vbar_el2 1 rvbar_el2 2 rmr_el2
s3_4_c12_c1 1 vdisr_el2
s3_4_c12_c8 0 ich_ap0r0_el2 1 ich_ap0r1_el2 2 ich_ap0r2_el2 3 ich_ap0r3_el2
s3_4_c12_c9 0 ich_ap1r0_el2 1 ich_ap1r1_el2 2 ich_ap1r2_el2 3 ich_ap1r3_el2 5 icc_sre_el2
s3_4_c12_c11 0 ich_hcr_el2 1 ich_vtr_el2 2 ich_misr_el2 3 ich_eisr_el2 5 ich_elrsr_el2 7 ich_vmcr_el2
s3_4_c12_c12 0 ich_lr0_el2 1 ich_lr1_el2 2 ich_lr2_el2 3 ich_lr3_el2 4 ich_lr4_el2 5 ich_lr5_el2 6 ich_lr6_el2 7 ich_lr7_el2
s3_4_c12_c13 0 ich_lr8_el2 1 ich_lr9_el2 2 ich_lr10_el2 3 ich_lr11_el2 4 ich_lr12_el2 5 ich_lr13_el2 6 ich_lr14_el2 7 ich_lr15_el2
s3_4_c13_c0 1 contextidr_el2 2 tpidr_el2 7 scxtnum_el2
s3_4_c13_c8 0 amevcntvoff00_el2 1 amevcntvoff01_el2 2 amevcntvoff02_el2 3 amevcntvoff03_el2 4 amevcntvoff04_el2 5 amevcntvoff05_el2 6 amevcntvoff06_el2 7 amevcntvoff07_el2
s3_4_c13_c9 0 amevcntvoff08_el2 1 amevcntvoff09_el2 2 amevcntvoff010_el2 3 amevcntvoff011_el2 4 amevcntvoff012_el2 5 amevcntvoff013_el2 6 amevcntvoff014_el2 7 amevcntvoff015_el2
s3_4_c13_c10 0 amevcntvoff10_el2 1 amevcntvoff11_el2 2 amevcntvoff12_el2 3 amevcntvoff13_el2 4 amevcntvoff14_el2 5 amevcntvoff15_el2 6 amevcntvoff16_el2 7 amevcntvoff17_el2
s3_4_c13_c11 0 amevcntvoff18_el2 1 amevcntvoff19_el2 2 amevcntvoff110_el2 3 amevcntvoff111_el2 4 amevcntvoff112_el2 5 amevcntvoff113_el2 6 amevcntvoff114_el2 7 amevcntvoff115_el2
s3_4_c14_c0 3 cntvoff_el2 6 cntpoff_el2
s3_4_c14_c1 0 cnthctl_el2
s3_4_c14_c2 0 cnthp_tval_el2 1 cnthp_ctl_el2 2 cnthp_cval_el2
s3_4_c14_c3 0 cnthv_tval_el2 1 cnthv_ctl_el2 2 cnthv_cval_el2
s3_4_c14_c4 0 cnthvs_tval_el2 1 cnthvs_ctl_el2 2 cnthvs_cval_el2
s3_4_c14_c5 0 cnthps_tval_el2 1 cnthps_ctl_el2 2 cnthps_cval_el2
s3_5_c1_c0 0 sctlr_el12 2 cpacr_el12
s3_5_c1_c2 0 zcr_el12 1 trfcr_el12 6 smcr_el12
s3_5_c2_c0 0 ttbr0_el12 1 ttbr1_el12 2 tcr_el12
s3_5_c4_c0 0 spsr_el12 1 elr_el12
s3_5_c5_c1 0 afsr0_el12 1 afsr1_el12
s3_5_c5_c2 0 esr_el12
s3_5_c5_c6 0 tfsr_el12
s3_5_c6_c0 0 far_el12
s3_5_c9_c9 0 pmscr_el12
s3_5_c10_c2 0 mair_el12
s3_5_c10_c3 0 amair_el12
s3_5_c10_c5 0 mpam1_el12
s3_5_c12_c0 0 vbar_el12
s3_5_c13_c0 1 contextidr_el12 7 scxtnum_el12
s3_5_c14_c1 0 cntkctl_el12
s3_5_c14_c2 0 cntp_tval_el02 1 cntp_ctl_el02 2 cntp_cval_el02
s3_5_c14_c3 0 cntv_tval_el02 1 cntv_ctl_el02 2 cntv_cval_el02
s3_6_c1_c0 0 sctlr_el3 1 actlr_el3
s3_6_c1_c1 0 scr_el3 1 sder32_el3 2 cptr_el3
s3_6_c1_c2 0 zcr_el3 6 smcr_el3
s3_6_c1_c3 1 mdcr_el3
s3_6_c2_c0 0 ttbr0_el3 2 tcr_el3
s3_6_c2_c1 4 gptbr_el3 6 gpccr_el3
s3_6_c4_c0 0 spsr_el3 1 elr_el3
s3_6_c4_c1 0 sp_el2
s3_6_c5_c1 0 afsr0_el3 1 afsr1_el3
s3_6_c5_c2 0 esr_el3
s3_6_c5_c6 0 tfsr_el3
s3_6_c6_c0 0 far_el3 5 mfar_el3
s3_6_c10_c2 0 mair_el3
s3_6_c10_c3 0 amair_el3
s3_6_c10_c5 0 mpam3_el3
s3_6_c12_c0 0 vbar_el3 1 rvbar_el3 2 rmr_el3
s3_6_c12_c12 4 icc_ctlr_el3 5 icc_sre_el3 7 icc_igrpen1_el3
s3_6_c13_c0 2 tpidr_el3 7 scxtnum_el3
s3_7_c14_c2 0 cntps_tval_el1 1 cntps_ctl_el1 2 cntps_cval_el1`

	arm64OperationNames = `s1_0_c7_c1 0 ic.ialluis
s1_0_c7_c5 0 ic.iallu
s1_0_c7_c6 1 dc.ivac 2 dc.isw 3 dc.igvac 4 dc.igsw 5 dc.igdvac 6 dc.igdsw
s1_0_c7_c8 0 at.s1e1r 1 at.s1e1w 2 at.s1e0r 3 at.s1e0w
s1_0_c7_c9 0 at.s1e1rp 1 at.s1e1wp
s1_0_c7_c10 2 dc.csw 4 dc.cgsw 6 dc.cgdsw
s1_0_c7_c14 2 dc.cisw 4 dc.cigsw 6 dc.cigdsw
s1_0_c8_c1 0 tlbi.vmalle1os 1 tlbi.vae1os 2 tlbi.aside1os 3 tlbi.vaae1os 5 tlbi.vale1os 7 tlbi.vaale1os
s1_0_c8_c2 1 tlbi.rvae1is 3 tlbi.rvaae1is 5 tlbi.rvale1is 7 tlbi.rvaale1is
s1_0_c8_c3 0 tlbi.vmalle1is 1 tlbi.vae1is 2 tlbi.aside1is 3 tlbi.vaae1is 5 tlbi.vale1is 7 tlbi.vaale1is
s1_0_c8_c5 1 tlbi.rvae1os 3 tlbi.rvaae1os 5 tlbi.rvale1os 7 tlbi.rvaale1os
s1_0_c8_c6 1 tlbi.rvae1 3 tlbi.rvaae1 5 tlbi.rvale1 7 tlbi.rvaale1
s1_0_c8_c7 0 tlbi.vmalle1 1 tlbi.vae1 2 tlbi.aside1 3 tlbi.vaae1 5 tlbi.vale1 7 tlbi.vaale1
s1_3_c7_c3 4 cfp.rctx 5 dvp.rctx 7 cpp.rctx
s1_3_c7_c4 1 dc.zva 3 dc.gva 4 dc.gzva
s1_3_c7_c5 1 ic.ivau
s1_3_c7_c10 1 dc.cvac 3 dc.cgvac 5 dc.cgdvac
s1_3_c7_c11 1 dc.cvau
s1_3_c7_c12 1 dc.cvap 3 dc.cgvap 5 dc.cgdvap
s1_3_c7_c13 1 dc.cvadp 3 dc.cgvadp 5 dc.cgdvadp
s1_3_c7_c14 1 dc.civac 3 dc.cigvac 5 dc.cigdvac
s1_4_c7_c8 0 at.s1e2r 1 at.s1e2w 4 at.s12e1r 5 at.s12e1w 6 at.s12e0r 7 at.s12e0w
s1_4_c8_c0 1 tlbi.ipas2e1is 2 tlbi.ripas2e1is 5 tlbi.ipas2le1is 6 tlbi.ripas2le1is
s1_4_c8_c1 0 tlbi.alle2os 1 tlbi.vae2os 4 tlbi.alle1os 5 tlbi.vale2os 6 tlbi.vmalls12e1os
s1_4_c8_c2 1 tlbi.rvae2is 5 tlbi.rvale2is
s1_4_c8_c3 0 tlbi.alle2is 1 tlbi.vae2is 4 tlbi.alle1is 5 tlbi.vale2is 6 tlbi.vmalls12e1is
s1_4_c8_c4 0 tlbi.ipas2e1os 1 tlbi.ipas2e1 2 tlbi.ripas2e1 3 tlbi.ripas2e1os 4 tlbi.ipas2le1os 5 tlbi.ipas2le1 6 tlbi.ripas2le1 7 tlbi.ripas2le1os
s1_4_c8_c5 1 tlbi.rvae2os 5 tlbi.rvale2os
s1_4_c8_c6 1 tlbi.rvae2 5 tlbi.rvale2
s1_4_c8_c7 0 tlbi.alle2 1 tlbi.vae2 4 tlbi.alle1 5 tlbi.vale2 6 tlbi.vmalls12e1
s1_6_c7_c8 0 at.s1e3r 1 at.s1e3w
s1_6_c7_c14 1 dc.cipapa 5 dc.cigdpapa
s1_6_c8_c1 0 tlbi.alle3os 1 tlbi.vae3os 4 tlbi.paallos 5 tlbi.vale3os
s1_6_c8_c2 1 tlbi.rvae3is 5 tlbi.rvale3is
s1_6_c8_c3 0 tlbi.alle3is 1 tlbi.vae3is 5 tlbi.vale3is
s1_6_c8_c4 3 tlbi.rpaos 7 tlbi.rpalos
s1_6_c8_c5 1 tlbi.rvae3os 5 tlbi.rvale3os
s1_6_c8_c6 1 tlbi.rvae3 5 tlbi.rvale3
s1_6_c8_c7 0 tlbi.alle3 1 tlbi.vae3 4 tlbi.paall 5 tlbi.vale3`
)

// arm64Names are the names by their encodings.
var arm64Names = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(arm64RegisterNames + "\n" + arm64OperationNames) {
		f := strings.Fields(line)
		for i := 1; i+1 < len(f); i += 2 {
			names[f[0]+"_"+f[i]] = f[i+1]
		}
	}
	return names
})
