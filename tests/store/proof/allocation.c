/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/store/proof/allocation.h"

#include "runtime/base/arena.h"
#include "tests/store/fault_io.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_ullong armed_at, call_count;
static atomic_bool is_persistent, has_fired;

void allocation_arm(uint64_t at, bool persistent) {
    atomic_store(&armed_at, at);
    atomic_store(&call_count, 0);
    atomic_store(&is_persistent, persistent);
    atomic_store(&has_fired, false);
}

uint64_t allocation_count(void) { return atomic_load(&call_count); }
bool allocation_fired(void) { return atomic_load(&has_fired); }

static bool fails(void) {
    uint64_t at = atomic_load(&armed_at);
    if (!at || fault_io_depth) return false;
    uint64_t number = atomic_fetch_add(&call_count, 1) + 1;
    bool hit = number == at || (number > at && atomic_load(&is_persistent));
    if (hit) atomic_store(&has_fired, true);
    if (hit) errno = ENOMEM;
    return hit;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user);
void *__real_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);
char *__real_tsr_arena_strdup(tsr_arena *arena, const char *text);
void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);
char *__wrap_tsr_arena_strdup(tsr_arena *arena, const char *text);
char *__real_tsr_arena_strndup(tsr_arena *arena, const char *text, size_t length);
char *__wrap_tsr_arena_strndup(tsr_arena *arena, const char *text, size_t length);

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }
void *__wrap_aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(align, size);
}
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return fails() ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user) {
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, start, user);
}
void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align) {
    return fails() ? NULL : __real_tsr_arena_alloc(arena, count, size, align);
}
char *__wrap_tsr_arena_strdup(tsr_arena *arena, const char *text) {
    return fails() ? NULL : __real_tsr_arena_strdup(arena, text);
}
char *__wrap_tsr_arena_strndup(tsr_arena *arena, const char *text, size_t length) {
    return fails() ? NULL : __real_tsr_arena_strndup(arena, text, length);
}
