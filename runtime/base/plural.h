/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of messages that depend on a number: "1 generation", "2 generations".
 *
 *     tsr_log(ctx, TSR_LOG_NOTICE, "%zu generation%s", count, TSR_PLURAL(count));
 *
 * Macros, because a count is of any integer type; they evaluate it once.
 */
#ifndef TSR_BASE_PLURAL_H
#define TSR_BASE_PLURAL_H

#define TSR_PLURAL(count) ((count) == 1 ? "" : "s")
#define TSR_PLURAL_Y(count) ((count) == 1 ? "y" : "ies") /* "entr%s" */
#define TSR_IS_ARE(count) ((count) == 1 ? "is" : "are")
#define TSR_WAS_WERE(count) ((count) == 1 ? "was" : "were")

#endif
