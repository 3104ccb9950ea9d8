/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator of the process under test, told to fail: the linker sends its calls of malloc,
 * calloc, realloc, aligned_alloc, mmap and pthread_create here (--wrap), and those of an arena, of
 * which few need a new block. Those that the file system in memory makes are not counted.
 */
#ifndef TSR_TESTS_STORE_PROOF_ALLOCATION_H
#define TSR_TESTS_STORE_PROOF_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

/* The `at`-th call from now on fails, if persistent all that follow it, too; 0: none does, and none
 * is counted. */
void allocation_arm(uint64_t at, bool persistent);
uint64_t allocation_count(void); /* since then */
bool allocation_fired(void);

#endif
