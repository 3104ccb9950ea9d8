/* SPDX-License-Identifier: Apache-2.0
 *
 * LLD in this process. The C++ implementation is in link.cpp.
 */
#ifndef TSR_COMPILER_TARGET_LINK_H
#define TSR_COMPILER_TARGET_LINK_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ld.lld with these arguments (args[0] is the program's name). On failure returns false and the
 * messages, cut at `size_bytes`. Call it in a separate process: after a crash LLD cannot run again.
 */
bool tsr_link_elf(size_t count, const char *const *args, size_t size_bytes, char *out_messages);

#ifdef __cplusplus
}
#endif
#endif
