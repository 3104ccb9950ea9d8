/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of flags: a flag whose value names a file says how the file is used.
 */
#include "runtime/base/array.h"
#include "tools/common/options.h"

#include <criterion/criterion.h>
#include <signal.h>

static tsr_result parse(tsr_flag *flag) {
    tsr_ctx ctx = {0};
    const char *words[1];
    size_t count = 0;
    return tsr_flags_parse(&ctx, 0, NULL, flag, 1, words, &count);
}

Test(options, every_row_that_takes_a_file_says_what_for) {
    const char *text = NULL;
    static const char *const words[] = {"FILE", "DIR", "OUT", "KEY", "PUB", "OLD", "PATH"};
    for (size_t i = 0; i < TSR_COUNT(words); i++) {
        tsr_flag flag = TSR_FLAG("--x", TEXT, READ, &text, words[i], "", 0, 0);
        cr_assert_eq(parse(&flag).code, TSR_OK, "%s", words[i]);
    }
}

Test(options, a_file_without_a_use_is_a_programming_error, .signal = SIGABRT) {
    const char *text = NULL;
    tsr_flag flag = TSR_FLAG("--x", TEXT, NONE, &text, "FILE", "", 0, 0);
    TSR_DROP(parse(&flag), "the call aborts");
}

Test(options, a_pair_without_a_use_is_one, .signal = SIGABRT) {
    tsr_flag_pairs pairs = {0};
    tsr_flag flag = TSR_FLAG("--x", PAIR, NONE, &pairs, "NAME=PATH", "", 0, 0);
    TSR_DROP(parse(&flag), "the call aborts");
}

Test(options, a_use_without_a_file_is_one, .signal = SIGABRT) {
    uint64_t count = 0;
    tsr_flag flag = TSR_FLAG("--x", COUNT, WRITE, &count, "N", "", 0, 0);
    TSR_DROP(parse(&flag), "the call aborts");
}
