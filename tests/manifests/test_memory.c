/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation fails, for every n: the result is TSR_MEMORY, nothing crashes, and no output
 * is written. The linker redirects the libraries' malloc, calloc and realloc here; cJSON has a
 * hook.
 */
#include "manifests/deployment.h"
#include "manifests/program.h"
#include "tests/manifests/random_manifests.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static unsigned allocation_count, failing = UINT32_MAX;

static bool fails(void) { return allocation_count++ == failing; }
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

typedef struct subject {
    tsr_config config;
    tsr_program program;
    char *json;
    void *bytes;
    size_t json_size, bytes_size;
} subject;

typedef tsr_result (*action)(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out);

static tsr_result encode_config(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out) {
    size_t size;
    return tsr_config_encode(ctx, &s->config, arena, out, &size);
}
static tsr_result decode_config(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out) {
    return tsr_config_decode(ctx, s->json, s->json_size, arena, out);
}
static tsr_result encode_program(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out) {
    size_t size;
    return tsr_program_encode(ctx, &s->program, arena, out, &size);
}
static tsr_result decode_program(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out) {
    return tsr_program_decode(ctx, s->bytes, s->bytes_size, &s->config, arena, out);
}
static tsr_result encode_deployment(tsr_ctx *ctx, const subject *s, tsr_arena *arena, void *out) {
    size_t size;
    return tsr_deployment_encode(ctx, &s->config, NULL, TSR_PART_ALL, arena, out, &size);
}

static void check(action act, unsigned allocations_min) {
    tsr_arena owner = {0};
    tsr_ctx ctx = {0};
    subject s = {0};
    cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
    s.config = random_config(3, 60, &owner); /* more than one block of an arena */
    s.program = random_program(3, 300, &s.config, &owner);
    cr_assert_eq(tsr_config_encode(&ctx, &s.config, &owner, &s.json, &s.json_size).code, TSR_OK);
    cr_assert_eq(tsr_program_encode(&ctx, &s.program, &owner, &s.bytes, &s.bytes_size).code,
                 TSR_OK);
    for (failing = 0;; failing++) {
        static const char zeros[sizeof(tsr_config)];
        char out[sizeof(tsr_config)] = {0};
        tsr_arena arena = {0};
        tsr_ctx mine = {0};
        allocation_count = 0;
        tsr_code code = act(&mine, &s, &arena, out).code;
        bool reached = allocation_count > failing;
        tsr_arena_finish(&arena);
        cr_assert_eq(code, reached ? TSR_MEMORY : TSR_OK, "allocation %u: %s", failing,
                     mine.error.text);
        if (!reached) break;
        cr_assert_arr_eq(out, zeros, sizeof out, "written only on success");
    }
    cr_assert_geq(failing, allocations_min, "%u", failing);
    failing = UINT32_MAX;
    tsr_arena_finish(&owner);
}

Test(memory, encode_config) { check(encode_config, 10); }
Test(memory, decode_config) { check(decode_config, 20); }
Test(memory, encode_program) { check(encode_program, 3); }
Test(memory, decode_program) { check(decode_program, 3); }
Test(memory, encode_deployment) { check(encode_deployment, 3); }
