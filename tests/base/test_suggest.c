/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <criterion/criterion.h>
#include <string.h>

/* The examples are from publications on the algorithm. */
Test(suggest, distances) {
    static const struct {
        const char *a, *b;
        size_t distance;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"kitten", "sitting", 3},
        {"saturday", "sunday", 3},
        {"teh", "the", 1},
        {"flaw", "lawn", 2},
        {"ca", "abc", 3},
        {"abcdef", "abcdef", 0},
        {"ab", "ba", 1},
        {"gumbo", "gambol", 2},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        cr_expect_eq(tsr_edit_distance(rows[i].a, rows[i].b, 99), rows[i].distance, "%s, %s",
                     rows[i].a, rows[i].b);
        cr_expect_eq(tsr_edit_distance(rows[i].b, rows[i].a, 99), rows[i].distance, "%s, %s",
                     rows[i].b, rows[i].a);
    }
    cr_expect_eq(tsr_edit_distance("kitten", "sitting", 2), 2);
}

static const char *best_of(const char *wrong, const char *const *names) {
    tsr_suggestion s = {.wrong = wrong};
    for (; *names; names++) tsr_suggest(&s, *names);
    return s.best;
}

Test(suggest, the_nearest_or_none) {
    static const char *const names[] = {"tessera.add",          "tessera.matmul",
                                        "tessera.softmax_safe", "tessera.scatter_add",
                                        "tessera.sum",          NULL};
    cr_assert_str_eq(best_of("tessera.matmull", names), "tessera.matmul");
    cr_assert_str_eq(best_of("tessera.softmax", names), "tessera.softmax_safe");
    cr_assert_str_eq(best_of("tessera.smu", names), "tessera.sum");
    cr_assert_null(best_of("linalg.generic", names));
    cr_assert_null(best_of("x", names));
}

Test(suggest, names_of_other_tools) {
    static const char *const flags[] = {"--seed", "--state-dir", "--steps", NULL};
    static const char *const other[] = {"--save-every", NULL};
    cr_assert_str_eq(best_of("--epochs", flags), "--steps");
    cr_assert_str_eq(best_of("--ckpt-dir", flags), "--state-dir");
    cr_assert_null(best_of("--epochs", other), "only names that exist are proposed");
}

Test(suggest, end_of_a_message) {
    char text[TSR_SUGGESTION_TEXT_MAX], name[300];
    tsr_suggestion s = {.wrong = "stpes"};
    cr_assert_str_eq(tsr_suggestion_text(&s, text), "");
    tsr_suggest(&s, "steps");
    cr_assert_str_eq(tsr_suggestion_text(&s, text), "; did you mean 'steps'?");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    s.best = name;
    cr_assert_eq(strlen(tsr_suggestion_text(&s, text)), 127 + strlen("; did you mean ''?"));
}
