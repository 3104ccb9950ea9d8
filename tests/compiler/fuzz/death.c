/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/death.h"

#include "tests/compiler/fuzz/stages.h"

#include <stdio.h>
#include <string.h>

/* "(anonymous namespace)::A::f(int)" and "R (anonymous namespace)::A::f<T>(…)" are "A::f". */
static void read_name(const char *in, char out_function[static 256]) {
    static const char hidden[] = "(anonymous namespace)::";
    const size_t hidden_size = sizeof hidden - 1;
    size_t used = 0;
    for (; used < 255 && *in; in++) {
        while (strncmp(in, hidden, hidden_size) == 0) in += hidden_size;
        if (strchr("(</", *in) || (*in == ' ' && in[1] && strchr("(./", in[1]))) break;
        if (*in == ' ' && strcspn(in, "/") < strcspn(in, "(<")) break; /* nptl/pthread_kill.c */
        if (*in == ' ' && (used < 8 || memcmp(out_function, "operator", 8) != 0))
            used = 0; /* what stood before was a type */
        else
            out_function[used++] = *in;
    }
    while (used && strchr(" .", out_function[used - 1])) used--;
    out_function[used] = '\0';
}

/* "    #3 0x55… in mlir::foo(…) file:line" or "… (module+0x…)" */
static bool read_frame(const char *at, char out_function[static 256], bool *out_ours) {
    static const char *const callers[] = {
        "tsr_mlir_parse",     "parse_text",        "tsr_shim_parse", "tsr_shim_read",
        "tsr_bytecode_print", "tsr_mlir_run_pass", "stages_"};
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    const char *in = strstr(line, " in ");
    if (strncmp(line, "    #", 5) != 0 || !in) return false;
    in += strlen(" in ");
    read_name(in, out_function);
    /* The glue of the dialects has no line numbers, a stripped program has none at all. */
    bool ours = strstr(in, "/compiler/") || strstr(in, "/runtime/base/") ||
                strncmp(in, "tessera::", strlen("tessera::")) == 0 ||
                strncmp(in, "tsr_", strlen("tsr_")) == 0;
    for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++)
        if (strncmp(out_function, callers[i], strlen(callers[i])) == 0) ours = false;
    /* Made by TableGen: it hands on what the reader of bytecode asks for. */
    if (strstr(out_function, "::readProperties")) ours = false;
    *out_ours = ours && !strstr(in, "/tests/");
    return true;
}

static bool is_runtime(const char *function) {
    static const char *const parts[] = {"__GI_",
                                        "__pthread",
                                        "__asan",
                                        "__ubsan",
                                        "__sanitizer",
                                        "__interceptor",
                                        "raise",
                                        "abort",
                                        "__pthread_kill",
                                        "pthread_kill",
                                        "gsignal",
                                        "__mem",
                                        "llvm::report_bad_alloc_error",
                                        "llvm::report_fatal_error",
                                        "report_size_overflow",
                                        "malloc",
                                        "calloc",
                                        "realloc",
                                        "operator new",
                                        "operator delete",
                                        "memcpy",
                                        "memmove"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strncmp(function, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

void death_classify(const char *log, death *d) {
    char function[256];
    bool ours;
    snprintf(d->where, sizeof d->where, "died outside of it");
    if (strstr(log, "tsr_assert") || strstr(log, "assertion")) d->ours = true;
    const char *internal = strstr(log, STAGES_INTERNAL);
    if (internal) {
        snprintf(d->where, sizeof d->where, "%.*s", (int)strcspn(internal, "\n"), internal);
        d->ours = true;
        return;
    }
    bool named = false;
    for (const char *at = log; at && *at;) {
        const char *next = strchr(at, '\n');
        if (read_frame(at, function, &ours)) {
            if (!named && !is_runtime(function)) {
                snprintf(d->where, sizeof d->where, "%s", function);
                named = true;
            }
            d->ours = d->ours || ours;
        } else if (named && (at[0] == '\n' || strncmp(at, "==", 2) == 0)) {
            break; /* further stacks tell where memory came from */
        }
        at = next ? next + 1 : NULL;
    }
}

/* FNV-1a of the innermost addresses of a report, "(module+0x…)"; 0 without any. */
uint64_t death_key(const char *log) {
    uint64_t key = 0;
    size_t frames = 0;
    for (const char *at = log; frames < 12 && (at = strstr(at, "    #")) != NULL; at++) {
        const char *end = at + strcspn(at, "\n"), *place = memchr(at, '+', (size_t)(end - at));
        if (!place) continue;
        if (!frames++) key = 0xcbf29ce484222325u;
        for (; place < end; place++) key = (key ^ (unsigned char)*place) * 0x100000001b3u;
    }
    return key;
}
