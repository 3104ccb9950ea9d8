/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory use of the commands of an entry: the workspace that is in use at each command, and the
 * bytes that each command accesses.
 */
#include "manifests/program.h"

#include <stdlib.h>

typedef struct lifetime {
    uint64_t offset_bytes, size_bytes;
    uint32_t first, last; /* commands; first > last: never used */
} lifetime;

static int by_range(const void *a, const void *b) {
    const lifetime *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* A value that was written before the loop lives until the end of the loop, for its next iteration;
 * a sequence that the loop puts together lives from the begin of the loop. */
static void stretch(const tsr_program_entry *plan, lifetime *lives) {
    for (uint32_t c = 0; c < plan->command_count; c++) {
        if (plan->commands[c].opcode != TSR_OP_REPEAT) continue;
        uint32_t last = c + plan->commands[c].kernel;
        for (uint32_t i = c + 1; i <= last; i++)
            for (uint32_t k = 0; k < plan->commands[i].argument_count; k++) {
                lifetime *life = &lives[plan->commands[i].arguments[k]];
                bool put = plan->commands[i].opcode == TSR_OP_PUT && k == 0;
                if (put && life->first > c) life->first = c;
                if (life->first <= c && life->last < last) life->last = last;
            }
    }
}

/* Also called for the AWAIT of a copy, which runs concurrently with other commands. */
static void touch(const tsr_program_command *command, uint32_t at, lifetime *lives) {
    for (uint32_t k = 0; k < command->argument_count; k++) {
        lifetime *life = &lives[command->arguments[k]];
        if (life->first == UINT32_MAX) life->first = at;
        life->last = at;
    }
}

static int by_offset(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Returns the number of each buffer's slot in the workspace; NULL if out of memory. */
static uint32_t *number_slots(const tsr_program_entry *plan, tsr_arena *arena) {
    uint64_t *offsets = TSR_NEW(arena, uint64_t, plan->buffer_count + 1);
    uint32_t *slots = TSR_NEW(arena, uint32_t, plan->buffer_count + 1), count = 0;
    if (!offsets || !slots) return NULL;
    for (uint32_t i = 0; i < plan->buffer_count; i++) offsets[i] = plan->buffers[i].offset_bytes;
    qsort(offsets, plan->buffer_count, sizeof *offsets, by_offset);
    for (uint32_t i = 0; i < plan->buffer_count; i++)
        if (!i || offsets[i] != offsets[count - 1]) offsets[count++] = offsets[i];
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const uint64_t *found =
            bsearch(&plan->buffers[i].offset_bytes, offsets, count, sizeof *offsets, by_offset);
        slots[i] = (uint32_t)(found - offsets);
    }
    return slots;
}

/* `written`: 1 + the buffer that was last written at each slot. A buffer at the same slot may
 * read the value in another shape: the written buffer lives until that read. */
static void note_reads(const tsr_program_entry *plan, uint32_t command, const uint32_t *slots,
                       const uint32_t *written, lifetime *lives) {
    const tsr_program_command *c = &plan->commands[command];
    uint32_t end = tsr_program_written_end(c);
    for (uint32_t k = 0; k < c->argument_count; k++) {
        bool writes = k >= c->written_from && k < end;
        uint32_t buffer = c->arguments[k], last = written[slots[buffer]];
        if (writes || !last || plan->buffers[buffer].space != TSR_SPACE_WORKSPACE) continue;
        if (lives[last - 1].last < command) lives[last - 1].last = command;
    }
}

static void note_writes(const tsr_program_entry *plan, uint32_t command, const uint32_t *slots,
                        uint32_t *written) {
    const tsr_program_command *c = &plan->commands[command];
    uint32_t end = tsr_program_written_end(c);
    for (uint32_t k = c->written_from; k < end; k++)
        if (plan->buffers[c->arguments[k]].space == TSR_SPACE_WORKSPACE)
            written[slots[c->arguments[k]]] = c->arguments[k] + 1;
}

static bool extend_viewed(const tsr_program_entry *plan, tsr_arena *arena, lifetime *lives) {
    uint32_t *slots = number_slots(plan, arena);
    uint32_t *written = TSR_NEW(arena, uint32_t, plan->buffer_count + 1);
    if (!slots || !written) return false;
    for (uint32_t c = 0; c < plan->command_count; c++) {
        note_reads(plan, c, slots, written, lives);
        note_writes(plan, c, slots, written);
    }
    return true;
}

static lifetime *list_lifetimes(const tsr_program_entry *plan, tsr_arena *arena) {
    lifetime *lives = TSR_NEW(arena, lifetime, plan->buffer_count + 1);
    for (uint32_t i = 0; lives && i < plan->buffer_count; i++) {
        const tsr_program_buffer *buffer = &plan->buffers[i];
        lives[i] = (lifetime){buffer->offset_bytes, tsr_program_buffer_size(buffer), UINT32_MAX, 0};
        if (buffer->space != TSR_SPACE_WORKSPACE) lives[i].size_bytes = 0;
    }
    for (uint32_t c = 0; lives && c < plan->command_count; c++) {
        const tsr_program_command *command = &plan->commands[c];
        bool awaits = command->opcode == TSR_OP_AWAIT;
        if (awaits && tsr_program_is_offload(&plan->commands[command->kernel]))
            command = &plan->commands[command->kernel];
        touch(command, c, lives);
    }
    if (lives && !extend_viewed(plan, arena, lives)) return NULL;
    if (lives) stretch(plan, lives);
    return lives;
}

bool tsr_program_live(const tsr_program_entry *plan, tsr_arena *arena, uint64_t *out_bytes) {
    lifetime *lives = list_lifetimes(plan, arena);
    int64_t *change = TSR_NEW(arena, int64_t, (size_t)plan->command_count + 2), now = 0;
    size_t count = 0;
    if (!lives || !change) return false;
    qsort(lives, plan->buffer_count, sizeof *lives, by_range);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        lifetime *before = count ? &lives[count - 1] : NULL;
        const lifetime life = lives[i];
        if (!life.size_bytes || life.first > life.last) continue;
        bool same = before && before->offset_bytes == life.offset_bytes &&
                    before->size_bytes == life.size_bytes && life.first <= before->last;
        if (!same)
            lives[count++] = life;
        else if (before->last < life.last)
            before->last = life.last;
    }
    for (size_t i = 0; i < count; i++) {
        change[lives[i].first] += (int64_t)lives[i].size_bytes;
        change[lives[i].last + 1] -= (int64_t)lives[i].size_bytes;
    }
    for (uint32_t c = 0; c < plan->command_count; c++) {
        now += change[c];
        out_bytes[c] = (uint64_t)now;
    }
    return true;
}

/* The size in a call. */
static uint64_t size_in_call(const tsr_program_buffer *buffer, const uint64_t *sizes) {
    uint64_t size = tsr_program_buffer_size(buffer);
    if (!sizes || !buffer->rows || !size) return size;
    return size / buffer->shape.dims[0] * sizes[buffer->rows - 1];
}

uint64_t tsr_program_command_bytes(const tsr_program_entry *entry,
                                   const tsr_program_command *command, const uint64_t *sizes) {
    uint64_t sum = 0;
    if (command->opcode == TSR_OP_VRANK_SUM) /* an addition reads two and writes one */
        return 3 * tsr_program_buffer_size(&entry->buffers[command->arguments[0]]);
    for (uint32_t i = 0; i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[command->arguments[i]];
        if (buffer->space != TSR_SPACE_HOST) sum += size_in_call(buffer, sizes);
    }
    return sum;
}
