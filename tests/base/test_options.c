/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/options.h"

#include <criterion/criterion.h>
#include <string.h>

/* The struct as an old program knows it, and as the library does. */
typedef struct old_options {
    size_t size_bytes;
    uint32_t keep, pad;
} old_options;
typedef struct new_options {
    size_t size_bytes;
    uint32_t keep, pad;
    const char *path;
    bool strict;
} new_options;

static const new_options dirty = {77, 77, 77, "dirty", true};

Test(options, none_is_all_defaults) {
    tsr_ctx ctx = {0};
    new_options options = dirty;
    cr_assert_eq(tsr_options_copy(&ctx, "new_options", NULL, &options, sizeof options).code,
                 TSR_OK);
    cr_assert_eq(options.size_bytes, sizeof options);
    cr_assert(options.keep == 0 && !options.path && !options.strict);
}

Test(options, smaller_ones_are_filled_up) {
    tsr_ctx ctx = {0};
    new_options options = dirty;
    old_options given = {sizeof given, 5, 0};
    cr_assert_eq(tsr_options_copy(&ctx, "new_options", &given, &options, sizeof options).code,
                 TSR_OK);
    cr_assert_eq(options.size_bytes, sizeof options);
    cr_assert_eq(options.keep, 5);
    cr_assert(!options.path && !options.strict);
}

Test(options, equal_ones_are_copied) {
    tsr_ctx ctx = {0};
    new_options options = {0}, given = {sizeof given, 5, 0, "p", true};
    cr_assert_eq(tsr_options_copy(&ctx, "new_options", &given, &options, sizeof options).code,
                 TSR_OK);
    cr_assert(options.keep == 5 && options.path == given.path && options.strict);
}

Test(options, larger_ones_are_refused_with_both_sizes) {
    tsr_ctx ctx = {0};
    new_options given = {sizeof given, 5, 0, "p", true};
    old_options options = {0};
    cr_assert_eq(tsr_options_copy(&ctx, "old_options", &given, &options, sizeof options).code,
                 TSR_USAGE);
    cr_assert_str_eq(ctx.error.text, "old_options has 32 bytes; this libtessera knows only 16");
    cr_assert_eq(options.keep, 0, "written only on success");
}

Test(options, a_forgotten_size_is_refused) {
    tsr_ctx ctx = {0};
    new_options given = {0}, options = {0};
    for (given.size_bytes = 0; given.size_bytes < sizeof(size_t); given.size_bytes++) {
        cr_assert_eq(tsr_options_copy(&ctx, "new_options", &given, &options, sizeof options).code,
                     TSR_USAGE);
        cr_assert(strstr(ctx.error.text, "expected sizeof(new_options)"), "%s", ctx.error.text);
    }
}
