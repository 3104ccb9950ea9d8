/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the lanes of a block as fibers. A lane runs until it has to wait for others: at an exchange
 * or a barrier. The 32 lanes of a program must then all wait at the same instruction; anything else
 * is an error, which ends the process. A wave of 64 lanes holds two such groups, and may run them
 * apart: what one reads of the other is arbitrary.
 *
 * Bytes of shared memory remember who wrote and read them since which barrier (lanes_access).
 */
#include "tests/lanes/lanes.h"
#include "tests/lanes/matrices.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    THREADS_MAX = 1024,
    GROUPS_MAX = THREADS_MAX / LANES_GROUP,
    STACK_BYTES = 512 * 1024,
    GRID_SIZE_OFFSET = 12,
    PARAMETERS_MAX = 2048,
    PACKET_BYTES = 64,
    LANES_WAVE_MAX = 64,
    REWRITE_MAX = 64,
};
static const uint32_t other_half = 0xdeadbeef; /* a register of lanes that may be elsewhere */

typedef enum wait {
    RUNS,
    AT_FIRST,
    AT_READ,
    AT_BPERMUTE,
    AT_SWIZZLE,
    AT_DPP,
    AT_PERMLANEX16,
    AT_BALLOT,
    AT_MATRIX,
    AT_WAVE_BARRIER,
    AT_BLOCK_BARRIER,
    ENDED,
} wait;

typedef struct lane {
    void *stack_pointer;
    wait wait;
    const char *site;
    uint32_t word, with[2]; /* what it brings to the exchange */
    uint64_t result;
    const void *first, *second, *sum; /* of an instruction of matrix units */
    void *product;
} lane;

typedef struct byte {
    bool is_shared, is_written; /* belongs to the kernel; has a value */
    bool many_lanes, many_groups;
    uint16_t writer, reader;
    uint32_t written_group, written_block; /* numbers of barriers, plus 1; 0: never */
    uint32_t read_group, read_block;
} byte;

/* A store to bytes that another lane of the group has stored: it must store the same. */
typedef struct rewrite {
    const char *at, *site; /* NULL: none */
    size_t size_bytes;
    char before[REWRITE_MAX];
} rewrite;

static struct {
    const lanes_kernel *kernel;
    uint64_t parameters[PARAMETERS_MAX];
    unsigned char packet[PACKET_BYTES];
    uint32_t block, current;
    lane lanes[THREADS_MAX];
    bool takes_part[GROUPS_MAX];
    uint32_t group_barriers[GROUPS_MAX], block_barriers;
    void *scheduler;
    char *stacks;
    byte *bytes;
    rewrite rewrite;
    pthread_mutex_t lock; /* one launch at a time */
} sim = {.lock = PTHREAD_MUTEX_INITIALIZER};

extern char __start_lds[] __attribute__((weak)), __stop_lds[] __attribute__((weak));

static void fail(const char *what, const char *site, const char *other) {
    fprintf(stderr, "lanes: kernel '%s', block %u, thread %u: %s:%s%s%s\n", sim.kernel->name,
            sim.block, sim.current, what, site ? site : "", other ? "; others:" : "",
            other ? other : "");
    fflush(stderr);
    _Exit(86);
}

/* ---- fibers ---------------------------------------------------------------------------------- */

void lanes_switch(void **save, void *load);
__asm__(".text\n.globl lanes_switch\n.hidden lanes_switch\nlanes_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void check_rewrite(void) {
    const rewrite *r = &sim.rewrite;
    if (r->at && memcmp(r->at, r->before, r->size_bytes) != 0)
        fail("another lane wrote this shared memory since the last barrier", r->site, NULL);
    sim.rewrite.at = NULL;
}

static void run_lane(void) {
    sim.kernel->enter(sim.parameters);
    check_rewrite();
    lane *self = &sim.lanes[sim.current];
    self->wait = ENDED;
    lanes_switch(&self->stack_pointer, sim.scheduler);
    abort();
}

static void start_lane(uint32_t thread) {
    enum { SAVED = 6 };
    uint64_t *top = (uint64_t *)(void *)(sim.stacks + (size_t)(thread + 1) * STACK_BYTES);
    *--top = 0; /* keeps the stack aligned as after a call */
    *--top = (uint64_t)(uintptr_t)run_lane;
    for (int i = 0; i < SAVED; i++) *--top = 0;
    sim.lanes[thread] = (lane){.stack_pointer = top};
}

static uint64_t wait_for(wait how, uint32_t word, uint32_t a, uint32_t b, const char *site) {
    lane *self = &sim.lanes[sim.current];
    check_rewrite();
    self->wait = how;
    self->site = site;
    self->word = word;
    self->with[0] = a;
    self->with[1] = b;
    lanes_switch(&self->stack_pointer, sim.scheduler);
    return self->result;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* The lane of the group that `number` of the group's wave is; LANES_GROUP: of the other half. */
static uint32_t in_group(uint32_t number, uint32_t group) {
    if (sim.kernel->wave_lanes == LANES_GROUP) return number % LANES_GROUP;
    number %= sim.kernel->wave_lanes;
    return number / LANES_GROUP == group % 2 ? number % LANES_GROUP : LANES_GROUP;
}

static uint32_t dpp_source(uint32_t lane_number, uint32_t control, const char *site) {
    enum { ROW = 16, ROTATE = 0x120, XOR = 0x160 };
    uint32_t row = lane_number / ROW * ROW, at = lane_number % ROW;
    if (control < 0x100) return lane_number / 4 * 4 + (control >> lane_number % 4 * 2 & 3);
    if (control > ROTATE && control < ROTATE + ROW) return row + (at + control - ROTATE) % ROW;
    if (control >= XOR && control < XOR + ROW) return row + (at ^ (control - XOR));
    fail("unknown control of DPP", site, NULL);
    return 0;
}

static uint32_t source_of(const lane *self, uint32_t number, uint32_t group) {
    switch (self->wait) {
    case AT_READ:
        return in_group(self->with[0], group);
    case AT_BPERMUTE:
        return in_group(self->with[0] / 4, group);
    case AT_SWIZZLE:
        return ((number & (self->with[0] & 31)) | (self->with[0] >> 5 & 31)) ^
               (self->with[0] >> 10 & 31);
    case AT_DPP:
        return dpp_source(number, self->with[0], self->site);
    case AT_PERMLANEX16:
        return (number / 16 ^ 1) * 16 + (self->with[number % 16 / 8] >> number % 8 * 4 & 15);
    default:
        return 0;
    }
}

static void exchange(lane *lanes, uint32_t group) {
    uint32_t votes = 0;
    for (uint32_t i = 0; i < LANES_GROUP; i++) votes |= (lanes[i].word & 1) << i;
    for (uint32_t i = 0; i < LANES_GROUP; i++) {
        lane *self = &lanes[i];
        uint32_t source = source_of(self, i, group);
        bool upper = sim.kernel->wave_lanes > LANES_GROUP && group % 2;
        if (self->wait == AT_BALLOT)
            self->result = upper ? (uint64_t)votes << LANES_GROUP | other_half
                                 : (uint64_t)other_half << LANES_GROUP | votes;
        else
            self->result = source < LANES_GROUP ? lanes[source].word : other_half;
        if (self->wait == AT_BALLOT && sim.kernel->wave_lanes == LANES_GROUP) self->result = votes;
    }
}

/* ---- matrix units ---------------------------------------------------------------------------- */

/* All lanes of the wave that begins at thread `begin` wait for the instruction. */
static void multiply(uint32_t begin) {
    const void *first[LANES_WAVE_MAX], *second[LANES_WAVE_MAX], *sums[LANES_WAVE_MAX];
    void *products[LANES_WAVE_MAX];
    const lane *lanes = &sim.lanes[begin];
    lanes_matrix_id id = (lanes_matrix_id)lanes->word;
    sim.current = begin;
    if (lanes_matrix_lanes(id) != sim.kernel->wave_lanes)
        fail("an instruction of matrix units for waves of another size", lanes->site, NULL);
    for (uint32_t i = 0; i < sim.kernel->wave_lanes; i++) {
        first[i] = lanes[i].first;
        second[i] = lanes[i].second;
        sums[i] = lanes[i].sum;
        products[i] = lanes[i].product;
    }
    if (!lanes_multiply(id, first, second, sums, products))
        fail("halves of a wave give different elements to an instruction that takes them twice",
             lanes->site, NULL);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

/* Runs the lanes of a group until each of them waits or has ended. */
static void run_group(uint32_t group) {
    for (uint32_t i = 0; i < LANES_GROUP; i++) {
        sim.current = group * LANES_GROUP + i;
        lane *self = &sim.lanes[sim.current];
        if (self->wait == RUNS) lanes_switch(&sim.scheduler, self->stack_pointer);
    }
}

static void release(uint32_t group) {
    for (uint32_t i = 0; i < LANES_GROUP; i++) sim.lanes[group * LANES_GROUP + i].wait = RUNS;
}

static void check_together(const lane *lanes, uint32_t group) {
    for (uint32_t i = 1; i < LANES_GROUP; i++) {
        if (lanes[i].wait == lanes[0].wait &&
            (lanes[i].wait == ENDED || lanes[i].site == lanes[0].site))
            continue;
        sim.current = group * LANES_GROUP + i;
        fail(lanes[i].wait == ENDED ? "the lane has ended while others wait"
                                    : "lanes of a program wait at different instructions",
             lanes[i].wait == ENDED ? "" : lanes[i].site,
             lanes[0].wait == ENDED ? " ended" : lanes[0].site);
    }
}

/* Advances a group by one exchange; false if it waits for the block, or has ended. */
static bool advance(uint32_t group) {
    lane *lanes = &sim.lanes[group * LANES_GROUP];
    run_group(group);
    check_together(lanes, group);
    if (lanes[0].wait == ENDED || lanes[0].wait == AT_BLOCK_BARRIER) return false;
    if (lanes[0].wait == AT_MATRIX && sim.kernel->wave_lanes > LANES_GROUP) return false;
    if (lanes[0].wait == AT_WAVE_BARRIER)
        sim.group_barriers[group]++;
    else if (lanes[0].wait == AT_MATRIX)
        multiply(group * LANES_GROUP);
    else
        exchange(lanes, group);
    release(group);
    return true;
}

/* All groups must be at the same barrier. */
static void pass_block_barrier(uint32_t groups) {
    const lane *first = NULL;
    for (uint32_t g = 0; g < groups; g++) {
        const lane *one = &sim.lanes[g * LANES_GROUP];
        if (!sim.takes_part[g]) continue;
        if (!first) first = one;
        sim.current = g * LANES_GROUP;
        if (one->wait != first->wait || one->site != first->site)
            fail("programs or warps of a block do not meet at one barrier",
                 one->wait == ENDED ? " ended" : one->site,
                 first->wait == ENDED ? " ended" : first->site);
    }
    sim.block_barriers++;
    for (uint32_t g = 0; g < groups; g++) {
        sim.group_barriers[g]++;
        if (sim.takes_part[g]) release(g);
    }
}

/* Both halves of a wave of 64 lanes wait. Multiplies if they wait for matrix units. */
static bool multiply_halves(uint32_t group) {
    const lane *low = &sim.lanes[group * LANES_GROUP], *high = low + LANES_GROUP;
    if (!sim.takes_part[group] || (low->wait != AT_MATRIX && high->wait != AT_MATRIX)) return false;
    sim.current = group * LANES_GROUP;
    if (low->wait != high->wait || low->site != high->site)
        fail("halves of a wave wait at different instructions",
             low->wait == ENDED ? " ended" : low->site,
             high->wait == ENDED ? " ended" : high->site);
    multiply(group * LANES_GROUP);
    release(group);
    release(group + 1);
    return true;
}

/* Runs all groups until they wait for the block or have ended. */
static void run_groups(uint32_t groups) {
    bool multiplied = true;
    while (multiplied) {
        multiplied = false;
        for (uint32_t g = 0; g < groups; g++)
            while (sim.takes_part[g] && advance(g)) continue;
        for (uint32_t g = 0; g + 1 < groups && sim.kernel->wave_lanes > LANES_GROUP; g += 2)
            multiplied = multiply_halves(g) || multiplied;
    }
}

static void run_block(uint32_t groups) {
    bool waits = true;
    while (waits) {
        waits = false;
        run_groups(groups);
        for (uint32_t g = 0; g < groups; g++)
            waits = waits || (sim.takes_part[g] && sim.lanes[g * LANES_GROUP].wait != ENDED);
        if (waits) pass_block_barrier(groups);
    }
}

/* ---- shared memory --------------------------------------------------------------------------- */

static void clear_shared(const lanes_kernel *kernel) {
    memset(sim.bytes, 0, (size_t)(__stop_lds - __start_lds) * sizeof *sim.bytes);
    for (uint32_t s = 0; s < kernel->shared_count; s++) {
        const lanes_shared *one = &kernel->shared[s];
        uint64_t size = one->size_bytes ? one->size_bytes : kernel->dynamic_bytes;
        for (uint64_t i = 0; i < size; i++)
            sim.bytes[one->bytes - __start_lds + (ptrdiff_t)i].is_shared = true;
        memset(one->bytes, 0xa5, size);
    }
}

/* Did another lane access the byte, with no barrier of both since? */
static bool conflicts(uint32_t by, bool many_lanes, bool many_groups, uint32_t at_group,
                      uint32_t at_block) {
    uint32_t group = sim.current / LANES_GROUP;
    if (!at_block || at_block != sim.block_barriers + 1) return false;
    if (many_groups || by / LANES_GROUP != group) return true;
    return at_group == sim.group_barriers[group] + 1 && (many_lanes || by != sim.current);
}

static void note_read(byte *b) {
    uint32_t group = sim.current / LANES_GROUP;
    bool again = b->read_block == sim.block_barriers + 1;
    bool same_group = again && b->reader / LANES_GROUP == group;
    b->many_groups = again && (b->many_groups || !same_group);
    b->many_lanes = same_group && b->read_group == sim.group_barriers[group] + 1 &&
                    (b->many_lanes || b->reader != sim.current);
    b->reader = (uint16_t)sim.current;
    b->read_group = sim.group_barriers[group] + 1;
    b->read_block = sim.block_barriers + 1;
}

static void note_write(byte *b) {
    b->is_written = true;
    b->writer = (uint16_t)sim.current;
    b->written_group = sim.group_barriers[sim.current / LANES_GROUP] + 1;
    b->written_block = sim.block_barriers + 1;
}

static void note_rewrite(const char *at, uint64_t size_bytes, const char *site) {
    sim.rewrite = (rewrite){.at = at, .site = site, .size_bytes = size_bytes};
    memcpy(sim.rewrite.before, at, size_bytes);
}

void lanes_access(const char *at, uint64_t size_bytes, uint32_t kind, const char *site) {
    check_rewrite();
    if (at < __start_lds || at >= __stop_lds) return;
    for (uint64_t i = 0; i < size_bytes; i++) {
        byte *b = &sim.bytes[at - __start_lds + (ptrdiff_t)i];
        if (!b->is_shared) fail("an access outside of the kernel's shared memory", site, NULL);
        if (kind == LANES_LOAD && !b->is_written)
            fail("a load of shared memory that was not written", site, NULL);
        bool conflict = conflicts(b->writer, false, false, b->written_group, b->written_block);
        bool again = conflict && kind == LANES_STORE && size_bytes <= REWRITE_MAX &&
                     b->writer / LANES_GROUP == sim.current / LANES_GROUP;
        if (again && !sim.rewrite.at) note_rewrite(at, size_bytes, site);
        if (conflict && !again)
            fail("another lane wrote this shared memory since the last barrier", site, NULL);
        if (kind == LANES_STORE &&
            conflicts(b->reader, b->many_lanes, b->many_groups, b->read_group, b->read_block))
            fail("another lane read this shared memory since the last barrier", site, NULL);
        if (kind == LANES_STORE)
            note_write(b);
        else
            note_read(b);
    }
}

/* ---- what lanes call ------------------------------------------------------------------------- */

uint32_t lanes_thread(void) { return sim.current; }
uint32_t lanes_block(void) { return sim.block; }
const void *lanes_dispatch(void) { return sim.packet; }

uint32_t lanes_first(uint32_t word, const char *site) {
    return (uint32_t)wait_for(AT_FIRST, word, 0, 0, site);
}

uint32_t lanes_read(uint32_t word, uint32_t lane_number, const char *site) {
    return (uint32_t)wait_for(AT_READ, word, lane_number, 0, site);
}

uint32_t lanes_bpermute(uint32_t address, uint32_t word, const char *site) {
    return (uint32_t)wait_for(AT_BPERMUTE, word, address, 0, site);
}

uint32_t lanes_swizzle(uint32_t word, uint32_t pattern, const char *site) {
    return (uint32_t)wait_for(AT_SWIZZLE, word, pattern, 0, site);
}

uint32_t lanes_dpp(uint32_t word, uint32_t control, const char *site) {
    return (uint32_t)wait_for(AT_DPP, word, control, 0, site);
}

uint32_t lanes_permlanex16(uint32_t word, uint32_t low, uint32_t high, const char *site) {
    return (uint32_t)wait_for(AT_PERMLANEX16, word, low, high, site);
}

uint64_t lanes_ballot(uint32_t vote, const char *site) {
    return wait_for(AT_BALLOT, vote, 0, 0, site);
}

void lanes_matrix(uint32_t id, const void *first, const void *second, const void *sum, void *result,
                  const char *site) {
    lane *self = &sim.lanes[sim.current];
    self->first = first;
    self->second = second;
    self->sum = sum;
    self->product = result;
    wait_for(AT_MATRIX, id, 0, 0, site);
}

void lanes_wave_barrier(const char *site) { wait_for(AT_WAVE_BARRIER, 0, 0, 0, site); }
void lanes_block_barrier(const char *site) { wait_for(AT_BLOCK_BARRIER, 0, 0, 0, site); }

/* ---- launches -------------------------------------------------------------------------------- */

static void prepare(const lanes_kernel *kernel, const tsr_kernel_args *args, int64_t end) {
    uint32_t count = kernel->parameter_count, blocks = 0;
    size_t stack_bytes = (size_t)THREADS_MAX * STACK_BYTES;
    sim.kernel = kernel;
    if (!sim.stacks) {
        sim.stacks = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        sim.bytes = calloc((size_t)(__stop_lds - __start_lds) + 1, sizeof *sim.bytes);
        if (sim.stacks == MAP_FAILED || !sim.bytes) abort();
    }
    if (count > PARAMETERS_MAX || kernel->threads > THREADS_MAX || kernel->threads % LANES_GROUP)
        fail("a launch that the simulator does not support", "", NULL);
    for (uint32_t i = 0; i + 3 < count; i++)
        sim.parameters[i] = (uint64_t)(uintptr_t)args->buffers[i];
    sim.parameters[count - 3] = (uint64_t)(uintptr_t)args->fault;
    sim.parameters[count - 1] = (uint64_t)end;
    blocks = (uint32_t)((end + kernel->programs - 1) / kernel->programs) * kernel->threads;
    memcpy(sim.packet + GRID_SIZE_OFFSET, &blocks, sizeof blocks);
}

/* Starts the lanes of the block's programs from number `begin` on. */
static void start_block(const lanes_kernel *kernel, uint32_t block, int64_t begin) {
    uint32_t lanes_each = kernel->threads / kernel->programs;
    sim.block = block;
    sim.block_barriers = 0;
    for (uint32_t g = 0; g < kernel->threads / LANES_GROUP; g++) {
        int64_t program = (int64_t)block * kernel->programs + g * LANES_GROUP / lanes_each;
        sim.takes_part[g] = program >= begin;
        sim.group_barriers[g] = 0;
        for (uint32_t i = 0; i < LANES_GROUP; i++) start_lane(g * LANES_GROUP + i);
    }
}

void lanes_launch(const lanes_kernel *kernel, const tsr_kernel_args *args, int64_t begin,
                  int64_t end) {
    if (begin >= end) return;
    pthread_mutex_lock(&sim.lock);
    char *scratch = kernel->scratch_bytes ? malloc(kernel->scratch_bytes) : NULL;
    prepare(kernel, args, end);
    for (int64_t b = begin / kernel->programs; b * kernel->programs < end; b++) {
        uint64_t offset = (uint64_t)b * kernel->scratch_bytes;
        if (scratch) memset(scratch, 0xa5, kernel->scratch_bytes);
        sim.parameters[kernel->parameter_count - 2] = (uint64_t)(uintptr_t)scratch - offset;
        start_block(kernel, (uint32_t)b, begin);
        clear_shared(kernel);
        run_block(kernel->threads / LANES_GROUP);
    }
    free(scratch);
    pthread_mutex_unlock(&sim.lock);
}
