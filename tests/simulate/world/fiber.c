/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/world/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 512 << 10 };

struct sim_fiber {
    ucontext_t inside, outside;
    void *stack;
    void (*run)(void *user);
    void *user;
    bool ended;
    void *fake_inside, *fake_outside; /* of AddressSanitizer */
    const void *outer_stack;
    size_t outer_size;
};

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
static void begin_switch(void **fake, const void *stack, size_t size) {
    __sanitizer_start_switch_fiber(fake, stack, size);
}
static void end_switch(void *fake, const void **stack, size_t *size) {
    __sanitizer_finish_switch_fiber(fake, stack, size);
}
#else
static void begin_switch(void **fake, const void *stack, size_t size) {
    (void)fake, (void)stack, (void)size;
}
static void end_switch(void *fake, const void **stack, size_t *size) {
    (void)fake, (void)stack, (void)size;
}
#endif

/* makecontext passes ints. */
static void start(unsigned high, unsigned low) {
    sim_fiber *fiber = (sim_fiber *)((uintptr_t)high << 32 | (uintptr_t)low);
    end_switch(NULL, &fiber->outer_stack, &fiber->outer_size);
    fiber->run(fiber->user);
    fiber->ended = true;
    begin_switch(NULL, fiber->outer_stack, fiber->outer_size);
}

sim_fiber *sim_fiber_create(void (*run)(void *user), void *user) {
    sim_fiber *fiber = calloc(1, sizeof *fiber);
    if (!fiber) abort();
    fiber->run = run;
    fiber->user = user;
    fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fiber->stack == MAP_FAILED || getcontext(&fiber->inside) < 0) abort();
    fiber->inside.uc_stack.ss_sp = fiber->stack;
    fiber->inside.uc_stack.ss_size = STACK_BYTES;
    fiber->inside.uc_link = &fiber->outside;
    makecontext(&fiber->inside, (void (*)(void))start, 2, (unsigned)((uintptr_t)fiber >> 32),
                (unsigned)(uintptr_t)fiber);
    return fiber;
}

void sim_fiber_enter(sim_fiber *fiber) {
    begin_switch(&fiber->fake_outside, fiber->stack, STACK_BYTES);
    swapcontext(&fiber->outside, &fiber->inside);
    end_switch(fiber->fake_outside, NULL, NULL);
}

void sim_fiber_leave(sim_fiber *fiber) {
    begin_switch(&fiber->fake_inside, fiber->outer_stack, fiber->outer_size);
    swapcontext(&fiber->inside, &fiber->outside);
    end_switch(fiber->fake_inside, &fiber->outer_stack, &fiber->outer_size);
}

bool sim_fiber_has_ended(const sim_fiber *fiber) { return fiber->ended; }

void sim_fiber_destroy(sim_fiber *fiber) {
    munmap(fiber->stack, STACK_BYTES);
    free(fiber);
}
