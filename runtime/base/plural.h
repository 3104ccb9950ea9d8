/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of messages that depend on a number: "1 generation is", "2 generations are".
 *
 *     tsr_log(ctx, TSR_LOG_NOTICE, "%zu generation%s", count, TSR_PLURAL(count));
 *
 * Macros, because a count may have any integer type.
 */
#ifndef TSR_BASE_PLURAL_H
#define TSR_BASE_PLURAL_H

#include <stdbool.h>

static inline const char *tsr_word(bool is_one, const char *one, const char *several) {
    return is_one ? one : several;
}

#define TSR_PLURAL(count) tsr_word((count) == 1, "", "s")
#define TSR_PLURAL_Y(count) tsr_word((count) == 1, "y", "ies") /* "entr%s" */
#define TSR_IS_ARE(count) tsr_word((count) == 1, "is", "are")
#define TSR_WAS_WERE(count) tsr_word((count) == 1, "was", "were")
#define TSR_PLURAL_ARE(count) TSR_PLURAL(count), TSR_IS_ARE(count) /* "record%s %s" */

#endif
