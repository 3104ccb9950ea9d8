/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of a bundle's target for a CPU or GPU, and the messages about it.
 */
#include "loader/match.h"
#include "runtime/base/array.h"
#include "runtime/cpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static tsr_ctx ctx;
static tsr_arena arena;
static tsr_bundle *bundle;

/* Opens a bundle with only these targets; the names end with NULL. */
static void open_bundle(const char *const *names) {
    static const char config[] = "{}";
    const tsr_bundle_blob blob = {TSR_MEDIA_PROGRAM, NULL, "x", 1, NULL};
    tsr_bundle_target targets[8];
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = config,
                            .config_size_bytes = sizeof config - 1,
                            .targets = targets};
    for (; names[spec.target_count]; spec.target_count++)
        targets[spec.target_count] = (tsr_bundle_target){names[spec.target_count], &blob, 1};
    snprintf(path, sizeof path, "/tmp/tessera-match-%ld.tsb", (long)getpid());
    ctx = (tsr_ctx){0};
    cr_assert_eq(tsr_bundle_write(&ctx, path, &spec).code, TSR_OK, "%s", ctx.error.text);
    cr_assert_eq(tsr_bundle_open(&ctx, path, NULL, &bundle).code, TSR_OK, "%s", ctx.error.text);
}

static void finish(void) {
    tsr_bundle_close(&ctx, bundle);
    tsr_arena_finish(&arena);
    unlink(path);
}
TestSuite(match, .fini = finish);

static const char *const all[] = {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", NULL};

static void chosen(unsigned level, const char *forced, const char *target, const char *reason) {
    size_t index = 77;
    const char *got = NULL;
    cr_assert_eq(tsr_match_target(&ctx, bundle, level, forced, &arena, &index, &got).code, TSR_OK,
                 "%s", ctx.error.text);
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, index), target);
    cr_assert_str_eq(got, reason);
}

static void refused(unsigned level, const char *forced, tsr_code code, const char *text) {
    size_t index = 77;
    const char *reason = NULL;
    cr_assert_eq(tsr_match_target(&ctx, bundle, level, forced, &arena, &index, &reason).code, code,
                 "%s", ctx.error.text);
    cr_assert(strstr(ctx.error.text, text), "expected '%s' in '%s'", text, ctx.error.text);
    cr_assert(index == 77 && !reason, "written only on success");
}

static void chosen_gpu(uint32_t capability, const char *target) {
    size_t index = 77;
    const char *reason = NULL;
    cr_assert_eq(tsr_match_cuda(&ctx, bundle, capability, &arena, &index, &reason).code, TSR_OK,
                 "%s", ctx.error.text);
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, index), target);
    cr_assert(strncmp(reason, target, strlen(target)) == 0 && strstr(reason, "compute capability"));
}

Test(match, gpus) {
    static const char *const names[] = {"cpu:x86-64-v3", "cuda:sm_80", "cuda:sm_90a",
                                        "cuda:sm_100",   "cuda:odd",   NULL};
    size_t index = 77;
    const char *reason = NULL;
    open_bundle(names);
    chosen_gpu(80, "cuda:sm_80");
    chosen_gpu(89, "cuda:sm_80");
    chosen_gpu(90, "cuda:sm_90a");
    chosen_gpu(92, "cuda:sm_80"); /* sm_90a runs only on 9.0 */
    chosen_gpu(100, "cuda:sm_100");
    chosen_gpu(120, "cuda:sm_100");
    cr_assert_eq(tsr_match_cuda(&ctx, bundle, 75, &arena, &index, &reason).code, TSR_TARGET);
    cr_assert(strstr(ctx.error.text, "has no code for a GPU of compute capability 7.5; it has ") &&
              index == 77);
    tsr_match match;
    const tsr_model_options wrong = {.device = "tpu"};
    cr_assert_eq(tsr_match_options(&ctx, bundle, &wrong, &arena, &match).code, TSR_USAGE);
    cr_assert(match.target == 5 && !match.may_be_gpu, "none of them");
    cr_assert_str_eq(
        ctx.error.text,
        "device 'tpu'; expected cpu, cuda, cuda:N, cuda:GPU-UUID, the same with hip, or auto");
    for (const char *const *form =
             (const char *const[]){"cuda:", "cuda:x", "cuda:0x", "cuda:-1", "cuda:GPU-", "cuda0",
                                   "hip:", "hip:gfx942", "hip:0000:zz:00.0", NULL};
         *form; form++) {
        const tsr_model_options unnamed = {.device = *form};
        cr_assert_eq(tsr_match_options(&ctx, bundle, &unnamed, &arena, &match).code, TSR_USAGE);
        cr_assert(strstr(ctx.error.text, *form));
    }
}

static void chosen_amd(uint32_t arch, const char *target) {
    size_t index = 77;
    const char *reason = NULL;
    cr_assert_eq(tsr_match_amd(&ctx, bundle, arch, &arena, &index, &reason).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, index), target);
    cr_assert(strncmp(reason, target, strlen(target)) == 0 && strstr(reason, "architecture gfx"));
}

Test(match, amd_gpus) {
    static const char *const names[] = {"cpu:x86-64-v3",      "cuda:sm_80",        "hip:gfx942",
                                        "hip:gfx9-4-generic", "hip:gfx11-generic", NULL};
    size_t index = 77;
    const char *reason = NULL;
    open_bundle(names);
    chosen_amd(0x942, "hip:gfx942");
    chosen_amd(0x950, "hip:gfx9-4-generic");
    chosen_amd(0x1100, "hip:gfx11-generic");
    cr_assert_eq(tsr_match_amd(&ctx, bundle, 0x90a, &arena, &index, &reason).code, TSR_TARGET);
    cr_assert(
        strstr(ctx.error.text, "has no code for a GPU of architecture gfx90a; it has cuda:") &&
            strstr(ctx.error.text, "; build it with --target=hip:gfx90a") && index == 77,
        "%s", ctx.error.text);
}

static size_t index_of(const char *name) {
    size_t i = 0, count = tsr_bundle_get_target_count(bundle);
    while (name && i < count && strcmp(tsr_bundle_get_target_name(bundle, i), name) != 0) i++;
    return name ? i : count;
}

/* Each cause has its reason, whichever target runs (NULL: none). */
Test(match, reasons) {
    static const char *const names[] = {"cpu:x86-64-v3",      "cuda:sm_80",  "cuda:sm_90a",
                                        "cuda:sm_100",        "cuda:odd",    "hip:gfx942",
                                        "hip:gfx9-4-generic", "hip:gfx1100", NULL};
    const tsr_match cuda = {.may_be_gpu = true, .gpu = &tsr_device_cuda, .capability = 90},
                    amd = {.may_be_gpu = true, .gpu = &tsr_device_hip, .amd = 0x942},
                    no_amd = {.may_be_gpu = true, .gpu = &tsr_device_hip};
    static const tsr_match newer = {.may_be_gpu = true, .capability = 103},
                           older = {.may_be_gpu = true, .capability = 75},
                           absent = {.may_be_gpu = true},
                           cpu = {.may_be_cpu = true, .cpu_level = 3},
                           none = {.may_be_gpu = true, .may_be_cpu = true, .cpu_level = 3},
                           left = {.may_be_gpu = true,
                                   .may_be_cpu = true,
                                   .cpu_level = 3,
                                   .capability = 80};
    const struct {
        const tsr_match *match;
        const char *runs, *target, *reason;
    } rows[] = {
        {&amd, "hip:gfx942", "hip:gfx942", "code for this GPU"},
        {&amd, "hip:gfx942", "hip:gfx9-4-generic", "hip:gfx942 suits this GPU better"},
        {&amd, "hip:gfx942", "hip:gfx1100", "this GPU is gfx942"},
        {&amd, "hip:gfx942", "cuda:sm_80", "needs an NVIDIA GPU as the device"},
        {&no_amd, NULL, "hip:gfx942", "this machine has no usable AMD GPU"},
        {&cuda, "cuda:sm_90a", "cuda:sm_90a", "code for this GPU"},
        {&cuda, "cuda:sm_90a", "cuda:sm_80", "cuda:sm_90a suits this GPU better"},
        {&cuda, "cuda:sm_90a", "cuda:sm_100", "this GPU has compute capability 9.0"},
        {&cuda, "cuda:sm_90a", "cuda:odd", "a GPU of an unknown kind"},
        {&cuda, "cuda:sm_90a", "hip:gfx942", "needs an AMD GPU as the device"},
        {&cpu, "cpu:x86-64-v3", "hip:gfx942", "needs an AMD GPU as the device"},
        {&cuda, "cuda:sm_90a", "cpu:x86-64-v3", "a GPU runs it"},
        {&newer, "cuda:sm_100", "cuda:sm_90a",
         "for compute capability 9.0 alone; this GPU has 10.3"},
        {&older, NULL, "cuda:sm_80", "this GPU has compute capability 7.5"},
        {&older, NULL, "cpu:x86-64-v3", "a GPU is requested"},
        {&absent, NULL, "cuda:sm_80", "this machine has no usable GPU"},
        {&cpu, "cpu:x86-64-v3", "cuda:sm_80", "needs a GPU as the device"},
        {&cpu, "cpu:x86-64-v3", "cpu:x86-64-v3", "the highest level this CPU has"},
        {&none, "cpu:x86-64-v3", "cuda:sm_80", "this machine has no usable GPU"},
        {&left, "cpu:x86-64-v3", "cuda:sm_80", "this GPU could not load it"},
    };
    open_bundle(names);
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_buffer text = {0};
        tsr_match match = *rows[i].match;
        match.target = index_of(rows[i].runs);
        tsr_match_explain(bundle, index_of(rows[i].target), &match, &text);
        cr_assert_str_eq(text.bytes, rows[i].reason);
        tsr_buffer_finish(&text);
    }
}

/* Only "auto" leaves a target, only if it is a GPU target, and only because of errors of the
 * GPU. */
Test(match, leaving) {
    static const char *const names[] = {"cpu:x86-64-v2", "cuda:sm_80", NULL};
    static const tsr_code left[] = {TSR_MACHINE, TSR_MEMORY, TSR_TARGET};
    static const tsr_code fatal[] = {TSR_CORRUPT, TSR_USAGE, TSR_IO, TSR_VERSION, TSR_INTERNAL};
    open_bundle(names);
    tsr_match match = {.target = index_of("cuda:sm_80"), .may_be_gpu = true, .may_be_cpu = true};
    tsr_match asked = {.target = match.target, .may_be_gpu = true};
    tsr_match cpu = {.target = index_of("cpu:x86-64-v2"), .may_be_cpu = true};
    for (size_t i = 0; i < TSR_COUNT(left); i++)
        cr_assert(tsr_match_may_leave(bundle, &match, left[i]) &&
                  !tsr_match_may_leave(bundle, &asked, left[i]) &&
                  !tsr_match_may_leave(bundle, &cpu, left[i]));
    for (size_t i = 0; i < TSR_COUNT(fatal); i++)
        cr_assert(!tsr_match_may_leave(bundle, &match, fatal[i]));
}

/* Equal texts mean equal bits: matrix units have texts of their own. */
Test(match, numerics) {
    static const char *const rows[][3] = {
        {"cuda:sm_80", "portable", "portable+fma"},
        {"cpu:x86-64-v3", "portable", "portable+fma"},
        {"hip:gfx942", "portable.2", "portable+fma.2"},
        {"hip:gfx942", "native.2", "portable+fma.2"},
        {"cpu:x86-64-v2", "portable", "portable"},
        {"cpu:x86-64-v3", "native", "portable+fma"},
        {"cpu:x86-64-v4-bf16", "portable", "portable+fma"},
        {"cpu:x86-64-v4-bf16", "native", "native+cpu:x86-64-v4-bf16"},
        {"cuda:sm_80", "native", "native+cuda:sm_80"},
        {"cuda:sm_80", "portable.2", "portable+fma.2"},
        {"cpu:x86-64-v3", "portable.2", "portable+fma.2"},
        {"cpu:x86-64-v2", "portable.2", "portable.2"},
        {"cpu:x86-64-v4", "native.2", "portable+fma.2"},
        {"cpu:x86-64-v4-bf16", "native.2", "native+cpu:x86-64-v4-bf16.2"},
        {"cuda:sm_90a", "native.2", "native+cuda:sm_90a.2"}};
    tsr_arena names = {0};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        cr_assert_str_eq(tsr_match_numerics(rows[i][0], rows[i][1], &names), rows[i][2]);
    tsr_arena_finish(&names);
}

Test(match, the_highest_level_of_the_cpu) {
    open_bundle(all);
    chosen(4, NULL, "cpu:x86-64-v4",
           "cpu:x86-64-v4: the highest level this CPU has; not cpu:x86-64-v3: a lower level; not "
           "cpu:x86-64-v2: a lower level");
    chosen(3, NULL, "cpu:x86-64-v3",
           "cpu:x86-64-v3: the highest level this CPU has; not cpu:x86-64-v4: this CPU has "
           "x86-64-v3; not cpu:x86-64-v2: a lower level");
    chosen(2, NULL, "cpu:x86-64-v2",
           "cpu:x86-64-v2: the highest level this CPU has; not cpu:x86-64-v4: this CPU has "
           "x86-64-v2; not cpu:x86-64-v3: this CPU has x86-64-v2");
}

Test(match, a_forced_level) {
    open_bundle(all);
    static const char reason[] = "cpu:x86-64-v2: requested; not cpu:x86-64-v4: this CPU has "
                                 "x86-64-v3; not cpu:x86-64-v3: not "
                                 "requested";
    chosen(3, "x86-64-v2", "cpu:x86-64-v2", reason);
    chosen(3, "cpu:x86-64-v2", "cpu:x86-64-v2", reason);
    refused(3, "x86-64-v4", TSR_MACHINE, "'x86-64-v4' was requested; this CPU has x86-64-v3");
    for (const char *const *wrong =
             (const char *const[]){"", "v3", "x86-64-v0", "x86-64-v5", "x86-64-v33", "x86-64-v4-",
                                   "x86-64-v3-bf16", "cpu:", NULL};
         *wrong; wrong++)
        refused(3, *wrong, TSR_USAGE,
                "is not a CPU level; expected x86-64-v2, x86-64-v3, x86-64-v4 or x86-64-v4-bf16");
}

Test(match, a_level_the_bundle_lacks) {
    open_bundle((const char *const[]){"cpu:x86-64-v4", "cuda:sm_80", NULL});
    refused(3, NULL, TSR_TARGET,
            "has no code for this CPU (x86-64-v3); it has cuda:sm_80, cpu:x86-64-v4");
    refused(4, "x86-64-v3", TSR_TARGET,
            "has no code for 'x86-64-v3'; it has cuda:sm_80, cpu:x86-64-v4");
    chosen(4, "x86-64-v4", "cpu:x86-64-v4",
           "cpu:x86-64-v4: requested; not cuda:sm_80: needs a GPU as the device");
    refused(4, "x86-64-v1", TSR_TARGET, "has no code for 'x86-64-v1'");
    chosen(
        4, NULL, "cpu:x86-64-v4",
        "cpu:x86-64-v4: the highest level this CPU has; not cuda:sm_80: needs a GPU as the device");
}

Test(match, a_cpu_above_the_bundle) {
    open_bundle((const char *const[]){"cpu:x86-64-v2", "cpu:x86-64-v3", NULL});
    chosen(4, NULL, "cpu:x86-64-v3",
           "cpu:x86-64-v3: the highest level that the bundle shares with this CPU (x86-64-v4); not "
           "cpu:x86-64-v2: a lower level");
}

/* Code for bf16 dot products ranks above all v4 code, and runs only on CPUs that support them. */
Test(match, dot_products) {
    cr_assert_eq(tsr_cpu_parse_level("cpu:x86-64-v4-bf16"), TSR_CPU_LEVEL_V4_BF16);
    for (unsigned level = 1; level < TSR_CPU_LEVELS; level++)
        cr_assert_eq(tsr_cpu_parse_level(tsr_cpu_level_name(level)), level);
    open_bundle(
        (const char *const[]){"cpu:x86-64-v3", "cpu:x86-64-v4-bf16", "cpu:x86-64-v4", NULL});
    chosen(TSR_CPU_LEVEL_V4_BF16, NULL, "cpu:x86-64-v4-bf16",
           "cpu:x86-64-v4-bf16: the highest level this CPU has; not cpu:x86-64-v4: a lower level; "
           "not cpu:x86-64-v3: a lower level");
    chosen(4, NULL, "cpu:x86-64-v4",
           "cpu:x86-64-v4: the highest level this CPU has; not cpu:x86-64-v4-bf16: this CPU has "
           "x86-64-v4; not cpu:x86-64-v3: a lower level");
    chosen(TSR_CPU_LEVEL_V4_BF16, "x86-64-v4", "cpu:x86-64-v4",
           "cpu:x86-64-v4: requested; not cpu:x86-64-v4-bf16: not requested; not cpu:x86-64-v3: "
           "not requested");
    refused(4, "x86-64-v4-bf16", TSR_MACHINE,
            "'x86-64-v4-bf16' was requested; this CPU has x86-64-v4");
}

Test(match, dot_products_alone) {
    open_bundle((const char *const[]){"cpu:x86-64-v4-bf16", NULL});
    refused(4, NULL, TSR_TARGET, "has no code for this CPU (x86-64-v4); it has cpu:x86-64-v4-bf16");
    refused(3, NULL, TSR_TARGET, "has no code for this CPU (x86-64-v3)");
}

Test(match, a_cpu_below_v2) {
    open_bundle(all);
    refused(1, NULL, TSR_MACHINE, "this CPU has x86-64-v1; at least x86-64-v2 is needed");
    refused(1, "x86-64-v2", TSR_MACHINE, "this CPU has x86-64-v1");
}
