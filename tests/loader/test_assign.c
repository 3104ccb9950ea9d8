/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors near a GPU: lists as Linux writes them, from a folder like /sys, and their division
 * among ranks. Which GPU a rank has: tests/tools/run-gpu-ranks.sh.
 */
#include "loader/assign.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has(const cpu_set_t *set, const char *expected) {
    char text[256] = "";
    for (size_t cpu = 0, at = 0; cpu < 64; cpu++)
        if (CPU_ISSET(cpu, set)) at += (size_t)sprintf(text + at, "%zu ", cpu);
    return strcmp(text, expected) == 0;
}

Test(assign, lists_of_processors) {
    static const struct {
        const char *text, *members; /* members NULL: not a list */
    } rows[] = {
        {"0", "0 "},   {"0-3", "0 1 2 3 "}, {"1,4-5,9\n", "1 4 5 9 "},
        {"7-7", "7 "}, {"", NULL},          {"3-1", NULL},
        {"a", NULL},   {"1,", NULL},        {"1-", NULL},
        {"5;6", NULL}, {"0-99999", NULL},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        cpu_set_t set;
        bool parsed = tsr_assign_parse_processors(rows[i].text, &set);
        cr_expect_eq(parsed, rows[i].members != NULL, "'%s'", rows[i].text);
        if (parsed) cr_expect(has(&set, rows[i].members), "'%s'", rows[i].text);
    }
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

Test(assign, the_system_says_which_are_near) {
    char root[] = "/tmp/assign.XXXXXX", command[192], folder[128];
    cpu_set_t near;
    int node = 9;
    cr_assert(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/bus/pci/devices/0000:1b:00.0", root);
    snprintf(command, sizeof command, "mkdir -p '%s'", folder);
    cr_assert_eq(system(command), 0);
    cr_expect_not(tsr_assign_read_near(root, "0000:1b:00.0", &near, &node));
    write_file(folder, "local_cpulist", "8-11,40\n");
    cr_expect(tsr_assign_read_near(root, "0000:1b:00.0", &near, &node));
    cr_expect(has(&near, "8 9 10 11 40 ") && node == -1, "node %d", node);
    write_file(folder, "numa_node", "1\n");
    cr_expect(tsr_assign_read_near(root, "0000:1b:00.0", &near, &node) && node == 1, "%d", node);
    cr_expect_not(tsr_assign_read_near(root, "0000:1c:00.0", &near, &node));
    write_file(folder, "local_cpulist", "none\n");
    cr_expect_not(tsr_assign_read_near(root, "0000:1b:00.0", &near, &node));
    snprintf(command, sizeof command, "rm -r '%s'", root);
    cr_expect_eq(system(command), 0);
}

Test(assign, ranks_divide_processors) {
    cpu_set_t all;
    cr_assert(tsr_assign_parse_processors("2-8", &all));
    const char *parts[] = {"2 3 ", "4 5 ", "6 7 8 "};
    for (uint32_t i = 0; i < 3; i++) {
        const cpu_set_t part = tsr_assign_take_part(&all, i, 3);
        cr_expect(has(&part, parts[i]), "part %u", i);
    }
    const cpu_set_t few = tsr_assign_take_part(&all, 1, 8),
                    alone = tsr_assign_take_part(&all, 0, 0);
    cr_expect(CPU_EQUAL(&few, &all) && CPU_EQUAL(&alone, &all));
}
