package disasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/perfark/perfark/objfile"
)

// vectors are instructions of x86 that no library here has: one or two of each
// kind of operands.
const vectors = `
	vaddps %zmm28,%zmm29,%zmm30{%k7}{z}
	vaddpd {rn-sae},%zmm28,%zmm29,%zmm30
	vaddpd (%rcx){1to8},%zmm29,%zmm30
	vaddps 0x123(%rax,%r14,8),%ymm17,%ymm18
	vaddss 508(%rdx),%xmm29,%xmm30{%k7}
	vcmpps $0x7b,{sae},%zmm29,%zmm30,%k5
	vcvtpd2dq (%rcx){1to2},%xmm30
	vcvttss2si {sae},%xmm30,%rax
	vfpclasspd $0x7b,(%rcx){1to8},%k5
	vpgatherdd 0x7b(%r14,%zmm31,8),%zmm30{%k1}
	vscatterqps %ymm30,0x7b(%r14,%zmm31,8){%k1}
	vpternlogd $0x7b,(%rcx){1to16},%zmm29,%zmm30
	vpermt2w %zmm28,%zmm29,%zmm30
	vpdpbusd %zmm28,%zmm29,%zmm30
	{vex} vpdpbusd %ymm2,%ymm3,%ymm4
	{vex} vpmadd52luq %xmm2,%xmm3,%xmm4
	vcvtneps2bf16 %zmm29,%ymm30
	vdpbf16ps (%rcx){1to16},%zmm29,%zmm30
	vaddph %zmm4,%zmm5,%zmm6
	vfmaddcph (%r9){1to16},%zmm5,%zmm6
	vgf2p8affineqb $0xab,%zmm4,%zmm5,%zmm6
	vaesenc %zmm4,%zmm5,%zmm6
	vpcompressb %zmm23,(%rcx){%k7}
	kandq %k1,%k2,%k3
	kshiftrw $3,%k1,%k2
	ldtilecfg (%rcx,%rdx,2)
	tileloadd (%rcx,%rdx,1),%tmm5
	tileloaddt1 (%rcx),%tmm5
	tdpbssd %tmm1,%tmm2,%tmm3
	tilerelease
	endbr64
	rdsspq %rax
	incsspq %rcx
	saveprevssp
	rstorssp (%rax)
	wrssq %rdx,(%rcx)
	setssbsy
	notrack jmp *%rax
	sha256rnds2 %xmm0,%xmm1,%xmm2
	aesenc128kl 126(%rdx),%xmm2
	movdir64b (%rcx),%rax
	enqcmd (%rcx),%rax
	xacquire lock addl $1,(%rcx)
	xrelease movl $1,(%rcx)
	xbegin 1f
1:	xend
	monitor %rax,%ecx,%edx
	mwait %eax,%ecx
	invpcid (%rax),%rdx
	cmpxchg16b (%rcx)
	vfmaddpd %xmm1,%xmm2,%xmm3,%xmm4
	addr32 blci (%edi),%r8d
	mulx %rax,%rbx,%rcx
	adox (%rax),%rdx
	pext %r8,%r9,%r10
	serialize
	senduipi %rax
`

// TestVectors compares the newer instructions of x86, which an assembler makes,
// in both syntaxes.
func TestVectors(t *testing.T) {
	if !withIced {
		t.Skip("for builds with iced")
	}
	as, err := exec.LookPath("as")
	if err != nil {
		t.Skip("no as")
	}
	dir := t.TempDir()
	source, object := filepath.Join(dir, "vectors.s"), filepath.Join(dir, "vectors.o")
	if err := os.WriteFile(source, []byte(vectors), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(as, "--64", "-o", object, source).CombinedOutput(); err != nil {
		t.Skipf("as does not know all of it: %s", out)
	}
	for _, intel := range []bool{false, true} {
		var args []string
		if intel {
			args = []string{"-M", "intel"}
		}
		want := objdump(t, "objdump", object, args...)
		d, err := New(objfile.MachineX86_64, 64, Options{Intel: intel})
		if err != nil {
			t.Fatal(err)
		}
		for i, addr := range want.addr {
			in := d.Decode(want.code[addr:], addr)
			end := uint64(len(want.code))
			if i+1 < len(want.addr) {
				end = want.addr[i+1]
			}
			if text := in.Format(noNames); bare(text) != bare(want.text[i]) || addr+uint64(in.Len) != end {
				t.Errorf("% x: %q of %d bytes, want %q of %d", want.code[addr:end], text, in.Len, want.text[i], end-addr)
			}
		}
	}
}
