/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/world/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 512 << 10 };

/* The saved position of a fiber or of the world. context_prepare() sets it to the beginning of
 * start(fiber), which never returns, on a stack of its own. */
#ifdef __x86_64__
typedef struct context {
    void *stack_pointer;
} context;

static void start(sim_fiber *fiber);

/* The callee-saved registers (System V ABI for x86-64, 3.2.1) are saved on the old stack.
 * swapcontext would make two system calls each time, for signals that are not masked here. */
void sim_context_switch(context *from, const context *to);
void sim_context_begin(void);
__asm__(".text\n"
        ".globl sim_context_switch\n"
        ".hidden sim_context_switch\n"
        ".type sim_context_switch, @function\n"
        "sim_context_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_context_switch, . - sim_context_switch\n"
        /* r12: the fiber, r13: start. */
        ".globl sim_context_begin\n"
        ".hidden sim_context_begin\n"
        ".type sim_context_begin, @function\n"
        "sim_context_begin:\n"
        "    movq %r12, %rdi\n"
        "    callq *%r13\n"
        "    ud2\n"
        ".size sim_context_begin, . - sim_context_begin\n");

static void context_prepare(context *at, void *stack, sim_fiber *fiber) {
    enum { WORDS = 9 }; /* r15, r14, r13, r12, rbx, rbp, return address; two words of alignment */
    uintptr_t *top = (uintptr_t *)(void *)((char *)stack + STACK_BYTES) - WORDS;
    memset(top, 0, WORDS * sizeof *top);
    top[2] = (uintptr_t)start;
    top[3] = (uintptr_t)fiber;
    top[6] = (uintptr_t)sim_context_begin;
    at->stack_pointer = top;
}

static void context_switch(context *from, const context *to) { sim_context_switch(from, to); }

#else
#include <ucontext.h>
typedef struct context {
    ucontext_t saved;
} context;

static void start(sim_fiber *fiber);

/* makecontext passes ints, so the pointer is split. */
static void start_of(unsigned high, unsigned low) {
    start((sim_fiber *)((uintptr_t)high << 32 | (uintptr_t)low));
}

static void context_prepare(context *at, void *stack, sim_fiber *fiber) {
    if (getcontext(&at->saved) < 0) abort();
    at->saved.uc_stack.ss_sp = stack;
    at->saved.uc_stack.ss_size = STACK_BYTES;
    makecontext(&at->saved, (void (*)(void))start_of, 2, (unsigned)((uintptr_t)fiber >> 32),
                (unsigned)(uintptr_t)fiber);
}

static void context_switch(context *from, const context *to) {
    swapcontext(&from->saved, &to->saved);
}
#endif

struct sim_fiber {
    context inside, outside;
    void *stack;
    void (*run)(void *user);
    void *user;
    bool ended;
    void *fake_inside, *fake_outside; /* used by AddressSanitizer */
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

static void start(sim_fiber *fiber) {
    end_switch(NULL, &fiber->outer_stack, &fiber->outer_size);
    fiber->run(fiber->user);
    fiber->ended = true;
    begin_switch(NULL, fiber->outer_stack, fiber->outer_size);
    context_switch(&fiber->inside, &fiber->outside);
}

sim_fiber *sim_fiber_create(void (*run)(void *user), void *user) {
    sim_fiber *fiber = calloc(1, sizeof *fiber);
    if (!fiber) abort();
    fiber->run = run;
    fiber->user = user;
    fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fiber->stack == MAP_FAILED) abort();
    context_prepare(&fiber->inside, fiber->stack, fiber);
    return fiber;
}

void sim_fiber_enter(sim_fiber *fiber) {
    begin_switch(&fiber->fake_outside, fiber->stack, STACK_BYTES);
    context_switch(&fiber->outside, &fiber->inside);
    end_switch(fiber->fake_outside, NULL, NULL);
}

void sim_fiber_leave(sim_fiber *fiber) {
    begin_switch(&fiber->fake_inside, fiber->outer_stack, fiber->outer_size);
    context_switch(&fiber->inside, &fiber->outside);
    end_switch(fiber->fake_inside, &fiber->outer_stack, &fiber->outer_size);
}

bool sim_fiber_has_ended(const sim_fiber *fiber) { return fiber->ended; }

void sim_fiber_destroy(sim_fiber *fiber) {
    munmap(fiber->stack, STACK_BYTES);
    free(fiber);
}
