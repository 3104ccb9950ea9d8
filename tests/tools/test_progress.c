/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the progress line: what is left out on narrow terminals, and in which order.
 */
#include "runtime/base/array.h"
#include "tools/run/progress.h"

#include <criterion/criterion.h>
#include <string.h>

static const float loss = 0.25f, accuracy = 0.5f;

static void format(const char *second_name, unsigned columns, char *out_text) {
    const tsr_tensor outputs[] = {
        {.name = "loss", .dtype = TSR_DTYPE_F32, .data = (void *)(uintptr_t)&loss},
        {.name = second_name, .dtype = TSR_DTYPE_F32, .data = (void *)(uintptr_t)&accuracy}};
    const tsr_step_report step = {.step = 7,
                                  .last_step = 19,
                                  .first_step = 1,
                                  .samples = 64,
                                  .samples_name = "images",
                                  .outputs = outputs,
                                  .output_count = TSR_COUNT(outputs),
                                  .seconds = 3};
    tsr_progress_format(&step, columns, out_text);
}

Test(progress, parts_that_do_not_fit_are_left_out) {
    static const struct {
        unsigned columns;
        const char *text;
    } rows[] = {
        {0, "step 7/19  loss 0.25  accuracy 0.5  128 samples/s  ETA 6 s"},
        {58, "step 7/19  loss 0.25  accuracy 0.5  128 samples/s  ETA 6 s"},
        {57, "step 7/19  loss 0.25  128 samples/s  ETA 6 s"},
        {44, "step 7/19  loss 0.25  128 samples/s  ETA 6 s"},
        {43, "step 7/19  loss 0.25  128 samples/s"},
        {35, "step 7/19  loss 0.25  128 samples/s"},
        {34, "step 7/19  128 samples/s  ETA 6 s"},
        {32, "step 7/19  128 samples/s"},
        {23, "step 7/19  loss 0.25"},
        {9, "step 7/19"},
        {8, "step 7"},
        {5, ""},
        {1, ""},
    };
    char text[TSR_PROGRESS_BYTES_MAX];
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        format("accuracy", rows[i].columns, text);
        cr_assert_str_eq(text, rows[i].text, "%u columns: '%s'", rows[i].columns, text);
    }
}

Test(progress, characters_are_counted_and_not_bytes) {
    char text[TSR_PROGRESS_BYTES_MAX];
    format("Gr\xC3\xB6\xC3\x9F"
           "e",
           55, text); /* 5 letters, 7 bytes */
    cr_assert(strstr(text, "Gr\xC3\xB6"), "'%s'", text);
    format("Gr\xC3\xB6\xC3\x9F"
           "e",
           54, text);
    cr_assert_not(strstr(text, "Gr\xC3\xB6"), "'%s'", text);
    format("\xE6\x90\x8D\xE5\xA4\xB1", 54, text); /* 2 wide characters: 4 columns */
    cr_assert(strstr(text, "\xE6\x90\x8D"), "'%s'", text);
    format("\xE6\x90\x8D\xE5\xA4\xB1", 53, text);
    cr_assert_not(strstr(text, "\xE6\x90\x8D"), "'%s'", text);
}

Test(progress, a_name_that_is_too_long_is_left_out) {
    char name[400], text[TSR_PROGRESS_BYTES_MAX];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    format(name, 0, text);
    cr_assert_str_eq(text, "step 7/19  loss 0.25  128 samples/s  ETA 6 s");
}
