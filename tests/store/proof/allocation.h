/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator that can be told to fail, for the process under test: the linker redirects its calls
 * of malloc, calloc, realloc, aligned_alloc, mmap and pthread_create here (--wrap). Arena
 * allocations are redirected, too, because few of them need a new block. Calls by the in-memory
 * file system are not counted.
 */
#ifndef TSR_TESTS_STORE_PROOF_ALLOCATION_H
#define TSR_TESTS_STORE_PROOF_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

/* The `at`-th call from now on fails, and all later calls if `persistent`. If `at` is 0, no call
 * fails and no call is counted. */
void allocation_arm(uint64_t at, bool persistent);
uint64_t allocation_count(void); /* calls since allocation_arm() */
bool allocation_fired(void);

#endif
