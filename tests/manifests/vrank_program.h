/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with one entry on four leaves, and checks that apply to every such example.
 */
#ifndef TSR_TESTS_MANIFESTS_VRANK_PROGRAM_H
#define TSR_TESTS_MANIFESTS_VRANK_PROGRAM_H

#include "manifests/program.h"

#include <criterion/criterion.h>
#include <string.h>

enum { VRANK_BUFFERS = 6, VRANK_COMMANDS = 6, VRANK_ARGUMENTS = 3 };

typedef struct example {
    tsr_config config;
    tsr_program program;
    const char *kernels[1];
    tsr_program_entry entry;
    tsr_program_buffer buffers[VRANK_BUFFERS];
    tsr_program_command commands[VRANK_COMMANDS];
    uint32_t arguments[VRANK_COMMANDS][VRANK_ARGUMENTS];
} example;

/* Sets everything but the contents of the buffers, commands and arguments, to which the entry
 * already points. */
static void begin_example(example *e, tsr_config_entry *entries, uint32_t buffer_count,
                          uint32_t command_count) {
    *e = (example){.program = {.kernel_count = 1, .entry_count = 1}, .kernels = {"k"}};
    e->config = (tsr_config){.version_major = 1,
                             .name = "m",
                             .producer = "test",
                             .numerics = "portable",
                             .virtual_ranks = 4,
                             .entry_count = 1,
                             .entries = entries};
    e->entry = (tsr_program_entry){.name = "train",
                                   .buffer_count = buffer_count,
                                   .command_count = command_count,
                                   .buffers = e->buffers,
                                   .commands = e->commands};
    e->program.kernels = e->kernels;
    e->program.entries = &e->entry;
}

/* The program is written as `version` and read back. It is refused under the previous version,
 * which does not know its contents, and under a future one. */
static void check_version(example *e, uint8_t version) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    void *bytes;
    size_t size;
    cr_assert_eq(tsr_program_encode(&ctx, &e->program, &arena, &bytes, &size).code, TSR_OK);
    uint8_t *at = (uint8_t *)bytes + 8;
    cr_assert_eq(*at, version);
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &e->config, &arena, &again).code, TSR_OK,
                 "%s", ctx.error.text);
    for (uint32_t i = 0; i < e->entry.command_count; i++) {
        cr_assert_eq(again.entries[0].commands[i].opcode, e->commands[i].opcode);
        cr_assert_eq(again.entries[0].commands[i].kernel, e->commands[i].kernel);
    }
    *at = version - 1;
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &e->config, &arena, &again).code,
                 TSR_CORRUPT);
    const char *told =
        tsr_arena_printf(&arena, "expected %u for its contents, got %u", version, version - 1u);
    cr_assert(strstr(ctx.error.text, told), "%s", ctx.error.text);
    *at = TSR_PROGRAM_VERSION + 1;
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &e->config, &arena, &again).code,
                 TSR_VERSION);
    tsr_arena_finish(&arena);
}

#define REFUSED(change, message)                                                                   \
    do {                                                                                           \
        example e;                                                                                 \
        tsr_ctx ctx = {0};                                                                         \
        make_example(&e);                                                                          \
        change;                                                                                    \
        cr_expect_eq(tsr_program_verify(&ctx, &e.program, &e.config, TSR_CORRUPT).code,            \
                     TSR_CORRUPT, "%s", #change);                                                  \
        cr_expect(strstr(ctx.error.text, message), "%s: %s", #change, ctx.error.text);             \
    } while (0)

/* Requires that the program is valid; appends its listing. */
static void list_valid(const example *e, tsr_buffer *out_text) {
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_program_verify(&ctx, &e->program, &e->config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    tsr_program_format(&e->program, &e->config, out_text);
}

#endif
