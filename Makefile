# The front door: every target sets up what it needs, may be run again at any time, and says in one
# line what to do when something is missing. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build demo test bench tidy format asan tsan fuzz clean

BUILD := build/release
MODEL ?= smollm2
ARGS ?=

help: ## this text
	@echo "Quire: a KV cache that outlives the process, and an OpenAI-compatible server that shows it."
	@echo
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo "Start with: make demo     (first time: about 10 minutes on 2 cores, most of it compiling)"
	@echo "Then:       $(BUILD)/quire serve \"\$$(tools/models fetch $(MODEL))\""

setup: ## Debian packages and ggml/libllama (tools/deps)
	@tools/deps all

build: setup ## build/release/quire
	@tools/build release quire

demo: build ## start the server on a real model and time cold, G1, G2, and G3 after kill -9
	@tools/demo --model $(MODEL) $(ARGS)

test: ## set up, build and run every test (ARGS="--only unit", ARGS=--long)
	@tools/deps all
	@tools/test $(ARGS)

bench: build ## every bench but memory, each ending in its table of bars (ARGS=--json)
	@tools/bench $(ARGS)

tidy: setup ## the style rules that are a program, and self-contained headers
	@tools/test --only tidy

format: setup ## clang-format every C++ file of ours in place
	@git ls-files '*.h' '*.cc' | xargs -r -n 32 -P "$$(nproc)" clang-format-19 -i

asan: setup ## AddressSanitizer and UBSan build, and its tests
	@tools/test --only asan

tsan: setup ## ThreadSanitizer build, and its tests
	@tools/test --only tsan

fuzz: setup ## every fuzzer for 10 s (SECONDS_EACH=600 for longer)
	@tools/test --only fuzz --fuzz-seconds $(or $(SECONDS_EACH),10)

clean: ## remove build/ and demo-results/ (models and ggml stay in the cache)
	@rm -rf build demo-results && echo "removed build/ and demo-results/"
