# perfark: see README.md. The two commands that need no set-up of yours are
# make demo and make test.

GO          ?= go
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 1m
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS     := -s -w -X main.release=$(VERSION)

# Where real recordings for the tests are, if they are: unpacked to a scratch
# directory for the time of the tests. PERFARK_CORPUS names one that is
# unpacked already.
CORPUS_TAR  ?= ../shared/corpus/corpus.tar.xz

.PHONY: build demo test record soak fuzz bench bench-quick agreement man clean

# The build tag that says that iced.go is there.
ICED = $$(test -s disasm/iced/iced.go && echo -tags iced)

build: disasm/iced/iced.go
	CGO_ENABLED=0 $(GO) build $(ICED) -trimpath -ldflags '$(LDFLAGS)' -o bin/perfark ./cmd/perfark

# The disassembler of x86 is fetched and translated. Without it the build has a
# lesser one, and says so.
disasm/iced/iced.go: disasm/iced/fetch.go
	cd disasm/iced && $(GO) generate || echo "NOTICE: iced-x86 cannot be had here: annotate knows fewer instructions of x86" >&2

demo: build
	scripts/demo.sh

test:
	GO='$(GO)' STATICCHECK='$(STATICCHECK)' CORPUS_TAR='$(CORPUS_TAR)' scripts/test.sh

# Recordings with all flags compared with those of perf, and recorders killed 200
# times.
record:
	PERFARK_RECORD=all PERFARK_KILLS=200 $(GO) test ./record ./cmd/perfark -run 'TestRecord|TestSink' -timeout 60m -v

# An unattended capture under load, with kills and full disks, for $(DURATION).
DURATION ?= 1h
soak:
	PERFARK_SOAK=$(DURATION) $(GO) test ./cmd/perfark -run 'TestSoak$$' -timeout 0 -v

# Every fuzz target for $(FUZZTIME) each.
fuzz:
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' CORPUS_TAR='$(CORPUS_TAR)' scripts/fuzz.sh

# perfark against perf, bzip2 and tar: wall, CPU, memory and ratios; and the
# disassembler against objdump. The inputs are recorded first, which takes some
# minutes and gigabytes; bench-quick takes two minutes.
bench: build
	bench/inputs.sh bench/out all
	$(GO) build -o bench/out/bin/symbolize ./bench/symbolize
	$(GO) run ./bench -dir bench/out -perfark bin/perfark
	GO='$(GO)' bench/foreign.sh bench/out arm64
	$(GO) run $(ICED) ./bench/agree -dir bench/out

bench-quick: build
	bench/inputs.sh bench/out small
	$(GO) run ./bench -dir bench/out -perfark bin/perfark -quick

# Names against perf's, every symbol of the 50 largest shared libraries here; and
# the tests of names that make test cuts short. Instructions against objdump's,
# of the programs of make bench, and of all machines that are read.
agreement: disasm/iced/iced.go
	PERFARK_AGREEMENT=50 $(GO) test ./objfile -run 'TestAgreement|TestPerf$$|TestCross|TestLayouts|TestDemangleFilt' -v -timeout 60m
	GO='$(GO)' bench/foreign.sh bench/out
	$(GO) run $(ICED) ./bench/agree -dir bench/out -all

man: build
	bin/perfark man bin/man

clean:
	rm -rf bin bench/out
