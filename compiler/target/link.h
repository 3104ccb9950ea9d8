/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of LLVM and LLD that have no C interface: link.cpp, code_object.cpp.
 */
#ifndef TSR_COMPILER_TARGET_LINK_H
#define TSR_COMPILER_TARGET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ld.lld with these arguments (args[0] is the program's name). On failure returns false and the
 * messages, cut at `size_bytes`. Call it in a separate process: after a crash LLD cannot run again.
 */
bool tsr_link_elf(size_t count, const char *const *args, size_t size_bytes, char *out_messages);

/* What a kernel of an AMD code object uses, for each thread or wave, and for each block. */
typedef struct tsr_code_resources {
    uint32_t vector_registers, scalar_registers, accumulators;
    uint32_t shared_bytes, private_bytes;
} tsr_code_resources;

/* Reads the metadata of a code object that was made here; one row for each name. On failure returns
 * false and a message. */
bool tsr_read_code_object(const void *bytes, size_t size_bytes, size_t count,
                          const char *const *names, tsr_code_resources *out_rows,
                          size_t message_bytes, char *out_message);

#ifdef __cplusplus
}
#endif
#endif
