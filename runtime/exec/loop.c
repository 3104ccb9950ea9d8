/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/loop.h"

#include "runtime/exec/collective.h"
#include "runtime/transport/collective.h"

#include <stdlib.h>

typedef struct tsr_loop_exchange {
    bool sums;      /* otherwise a gather */
    bool by_rounds; /* only for a gather */
    tsr_reduction reduction;
    char *bytes;  /* the result; for a sum, slot 0 */
    size_t count; /* elements of a sum; bytes that a virtual rank contributes to a gather */
} exchange;

typedef struct list_maker {
    const tsr_loop_source *of;
    uint32_t vrank; /* index on this rank */
    tsr_device_command *commands;
    uint32_t *sources, count;
    uint64_t cost_max;
    uint32_t source;
    tsr_loop_step *steps;
    uint32_t step_count, begun; /* the first command of the current step */
} list_maker;

/* ---- lists of device commands ---- */

static char *to_device(const list_maker *m, const void *host) {
    const tsr_device_memory *memory = m->of->memory;
    return memory->device + ((const char *)host - memory->host);
}

static void add_command(list_maker *m, tsr_device_command command) {
    m->sources[m->count] = m->source;
    m->commands[m->count++] = command;
    if (command.cost > m->cost_max) m->cost_max = command.cost;
}

static const tsr_program_buffer *buffer_of(const list_maker *m, const tsr_program_command *command,
                                           uint32_t i) {
    return &m->of->entry->buffers[command->arguments[i]];
}

static void *argument_of(const list_maker *m, const tsr_program_command *command, uint32_t i) {
    return m->of->find(m->of->user, m->vrank, buffer_of(m, command, i));
}

static bool add_launch(list_maker *m, const tsr_program_command *command) {
    void **buffers = TSR_NEW(m->of->arena, void *, command->argument_count);
    void **guarded = TSR_NEW(m->of->arena, void *, command->argument_count);
    uint32_t guarded_count = 0;
    if (!buffers || !guarded) return false;
    for (uint32_t i = 0; i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = buffer_of(m, command, i);
        buffers[i] = to_device(m, argument_of(m, command, i));
        if (i < command->written_from || buffer->space != TSR_SPACE_PART) continue;
        if (!m->of->note_change(m->of->user, buffer)) return false;
        guarded[guarded_count++] = m->of->tensors[buffer->index];
    }
    add_command(m, (tsr_device_command){.kernel = command->kernel,
                                        .buffer_count = command->argument_count,
                                        .buffers = buffers,
                                        .grid = command->grid,
                                        .cost = command->cost,
                                        .location = command->location,
                                        .guarded = guarded,
                                        .guarded_count = guarded_count});
    return true;
}

static bool add_copy(list_maker *m, void *to, const void *from, uint64_t size_bytes) {
    void **buffers = TSR_NEW(m->of->arena, void *, 2);
    if (!buffers) return false;
    buffers[0] = to_device(m, to);
    buffers[1] = to_device(m, from);
    add_command(m, (tsr_device_command){.kind = TSR_DEVICE_COPY,
                                        .buffer_count = 2,
                                        .buffers = buffers,
                                        .copy_bytes = size_bytes,
                                        .location = ""});
    return true;
}

static char *slot_of(const list_maker *m, uint32_t slot, char *sum, char *summand) {
    return slot == TSR_VRANK_SUMMAND ? summand : sum + slot * m->of->sums_bytes;
}

static void end_step(list_maker *m, tsr_round *then) {
    m->steps[m->step_count++] = (tsr_loop_step){.vrank = m->vrank,
                                                .list = {.name = m->of->name,
                                                         .commands = m->commands + m->begun,
                                                         .command_count = m->count - m->begun,
                                                         .cost_max = m->cost_max},
                                                .sources = m->sources + m->begun,
                                                .then = then};
    m->begun = m->count;
    m->cost_max = 0;
}

/* Sums over the ranks' values in this turn, before they are folded. */
static bool add_round(list_maker *m, const tsr_program_command *command,
                      const tsr_vrank_fold *fold) {
    const tsr_program_buffer *sum = buffer_of(m, command, 0);
    tsr_round *round = TSR_NEW(m->of->arena, tsr_round, 1);
    if (!round) return false;
    *round = (tsr_round){.reduction = tsr_vranks_reduction(sum->dtype),
                         .from = argument_of(m, command, 1),
                         .to = m->of->round,
                         .count = tsr_program_buffer_size(sum) / tsr_dtype_size(sum->dtype)};
    if (m->of->reductions->strategy[command->arguments[0]] == TSR_STRATEGY_SCATTERED) {
        round->part = tsr_collective_part(round->count, m->of->vranks->total);
        round->slot_bytes = tsr_reduction_plan_slot_bytes(sum, m->of->vranks);
        round->slots = argument_of(m, command, 0);
        round->fold = *fold;
    }
    end_step(m, round);
    return true;
}

static bool add_fold(list_maker *m, const tsr_program_command *command) {
    char *sum = argument_of(m, command, 0), *summand = argument_of(m, command, 1);
    const tsr_vranks vranks =
        tsr_reduction_plan_vranks(m->of->reductions, m->of->vranks, command->arguments[0]);
    tsr_vrank_fold fold;
    tsr_vranks_fold(&vranks, m->vrank, &fold);
    if (vranks.by_rounds) {
        if (!add_round(m, command, &fold)) return false;
        if (m->of->reductions->strategy[command->arguments[0]] == TSR_STRATEGY_SCATTERED)
            return true;
        summand = m->of->round;
    }
    if (fold.step_count == 0)
        return add_copy(m, slot_of(m, fold.copy_to, sum, summand), summand,
                        tsr_program_buffer_size(buffer_of(m, command, 0)));
    for (uint32_t i = 0; i < fold.step_count; i++) {
        void **buffers = TSR_NEW(m->of->arena, void *, 3);
        if (!buffers) return false;
        buffers[0] = to_device(m, slot_of(m, fold.steps[i].a, sum, summand));
        buffers[1] = to_device(m, slot_of(m, fold.steps[i].b, sum, summand));
        buffers[2] = to_device(m, slot_of(m, fold.steps[i].out, sum, summand));
        add_command(m, (tsr_device_command){.kernel = command->kernel,
                                            .buffer_count = 3,
                                            .buffers = buffers,
                                            .grid = command->grid,
                                            .cost = command->cost,
                                            .location = command->location});
    }
    return true;
}

static bool add_gather(list_maker *m, const tsr_program_command *command) {
    uint64_t size = tsr_program_buffer_size(buffer_of(m, command, 1));
    char *all = argument_of(m, command, 0);
    const tsr_vranks vranks =
        tsr_reduction_plan_vranks(m->of->reductions, m->of->vranks, command->arguments[0]);
    return add_copy(m, all + tsr_vranks_number(&vranks, m->vrank) * size,
                    argument_of(m, command, 1), size);
}

/* Gathers a tensor: copies this rank's parts; the other ranks' parts arrive in the exchange. */
static bool add_collective(list_maker *m) {
    tsr_collective *gather = TSR_NEW(m->of->arena, tsr_collective, 1);
    tsr_round *round = TSR_NEW(m->of->arena, tsr_round, 1);
    tsr_device_list copies;
    if (!gather || !round || !tsr_collective_bind(m->of, m->source, gather, &copies)) return false;
    for (uint32_t i = 0; i < copies.command_count; i++) add_command(m, copies.commands[i]);
    *round = (tsr_round){.gather = gather};
    if (m->of->vranks->rank_count > 1) end_step(m, round);
    return true;
}

/* Makes the steps of commands [begin, end) of the program for one virtual rank; for a turn in which
 * this rank has no virtual rank, makes only the exchanges of all ranks. */
static bool make_steps(const tsr_loop_source *of, uint32_t vrank, uint32_t begin, uint32_t end,
                       tsr_loop *loop) {
    size_t count = 1;
    for (uint32_t i = begin; i < end; i++)
        count += of->entry->commands[i].opcode == TSR_OP_VRANK_SUM    ? TSR_VRANK_STEPS_MAX
                 : of->entry->commands[i].opcode == TSR_OP_COLLECTIVE ? of->vranks->count
                                                                      : 1;
    list_maker m = {.of = of,
                    .vrank = vrank,
                    .commands = TSR_NEW(of->arena, tsr_device_command, count),
                    .sources = TSR_NEW(of->arena, uint32_t, count),
                    .steps = loop->steps,
                    .step_count = loop->step_count};
    if (!m.commands || !m.sources) return false;
    for (m.source = begin; m.source < end; m.source++) {
        const tsr_program_command *command = &of->entry->commands[m.source];
        if (vrank >= of->vranks->count && command->opcode != TSR_OP_COLLECTIVE) continue;
        bool added = command->opcode == TSR_OP_COLLECTIVE     ? add_collective(&m)
                     : command->opcode == TSR_OP_VRANK_SUM    ? add_fold(&m, command)
                     : command->opcode == TSR_OP_VRANK_GATHER ? add_gather(&m, command)
                                                              : add_launch(&m, command);
        if (!added) return false;
    }
    end_step(&m, NULL);
    loop->step_count = m.step_count;
    return true;
}

/* ---- exchanges of ranks ---- */

static int by_address(const void *a, const void *b) {
    const exchange *x = a, *y = b;
    if (x->sums != y->sums) return x->sums ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Joins adjacent sums into one: the gap between them is smaller than the alignment, and zero. */
static void join_sums(tsr_loop *s) {
    uint32_t merged = 0;
    for (uint32_t i = 0; i < s->exchange_count; i++) {
        exchange *next = &s->exchanges[i], *last = merged ? &s->exchanges[merged - 1] : NULL;
        size_t size = tsr_reduction_get_size(next->reduction);
        bool joins = last && last->sums && next->sums && last->reduction == next->reduction;
        if (joins) {
            size_t apart = (size_t)(next->bytes - last->bytes);
            joins = apart - last->count * size < TSR_BUFFER_ALIGN_BYTES;
            if (joins) last->count = apart / size + next->count;
        }
        if (!joins) s->exchanges[merged++] = *next;
    }
    s->exchange_count = merged;
}

static bool bind_exchanges(const tsr_loop_source *of, uint32_t begin, uint32_t end, tsr_loop *s) {
    s->exchanges = TSR_NEW(of->arena, exchange, (size_t)(end - begin) + 1);
    s->results = TSR_NEW(of->arena, tsr_loop_result, (size_t)(end - begin) + 1);
    if (!s->exchanges || !s->results) return false;
    for (uint32_t i = begin; i < end; i++) {
        const tsr_program_command *command = &of->entry->commands[i];
        if (command->opcode != TSR_OP_VRANK_SUM && command->opcode != TSR_OP_VRANK_GATHER) continue;
        if (of->deferred[command->arguments[0]]) continue;
        tsr_reduction_strategy strategy = of->reductions->strategy[command->arguments[0]];
        const tsr_program_buffer *result = &of->entry->buffers[command->arguments[0]];
        bool sums = command->opcode == TSR_OP_VRANK_SUM;
        uint64_t size = tsr_program_buffer_size(&of->entry->buffers[command->arguments[1]]);
        if (!sums || strategy == TSR_STRATEGY_AT_END)
            s->exchanges[s->exchange_count++] =
                (exchange){.sums = sums,
                           .by_rounds = strategy != TSR_STRATEGY_AT_END,
                           .reduction = tsr_vranks_reduction(result->dtype),
                           .bytes = of->find(of->user, 0, result),
                           .count = sums ? size / tsr_dtype_size(result->dtype) : size};
        s->results[s->result_count++] =
            (tsr_loop_result){i, of->find(of->user, 0, result), tsr_program_buffer_size(result)};
    }
    qsort(s->exchanges, s->exchange_count, sizeof *s->exchanges, by_address);
    join_sums(s);
    return true;
}

bool tsr_loop_bind(const tsr_loop_source *source, uint32_t begin, uint32_t end,
                   tsr_loop *out_loop) {
    tsr_loop loop = {0};
    size_t each = 1; /* number of steps of a virtual rank */
    for (uint32_t i = begin; i < end; i++)
        each += source->entry->commands[i].opcode == TSR_OP_VRANK_SUM ||
                source->entry->commands[i].opcode == TSR_OP_COLLECTIVE;
    uint32_t rounds = (source->vranks->total - 1) / source->vranks->rank_count + 1;
    loop.steps = TSR_NEW(source->arena, tsr_loop_step, each * rounds + 1);
    if (!loop.steps) return false;
    for (uint32_t i = 0; i < rounds; i++)
        if (!make_steps(source, i, begin, end, &loop)) return false;
    if (!bind_exchanges(source, begin, end, &loop)) return false;
    for (uint32_t i = 0; i < loop.exchange_count; i++) loop.gather_count += !loop.exchanges[i].sums;
    loop.gathers = TSR_NEW(source->arena, tsr_transport_segment, (size_t)loop.gather_count + 1);
    if (!loop.gathers) return false;
    *out_loop = loop;
    return true;
}

static tsr_reduce_options options_of(const exchange *e, uint64_t sums_bytes) {
    return (tsr_reduce_options){
        .reduction = e->reduction, .rows = e->bytes, .stride_bytes = sums_bytes, .count = e->count};
}

/* Sums that are exchanged at the end are over consecutive virtual ranks. */
static tsr_vranks dealt(const exchange *e, const tsr_vranks *vranks) {
    tsr_vranks of = *vranks;
    of.by_rounds = e->by_rounds;
    return of;
}

/* As tsr_vranks_gather, in the memory of the device. */
static tsr_result gather(tsr_ctx *ctx, const exchange *e, tsr_exchanger *x, const tsr_vranks *of) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t rounds = tsr_vranks_divide_rows(of, e->count, first_byte);
    for (uint32_t i = 0; i < rounds; i++)
        TRY(ctx,
            x->kind->all_gather(ctx, x, e->bytes + i * first_byte[of->rank_count], first_byte));
    return TSR_SUCCESS;
}

static tsr_result run_exchange(tsr_ctx *ctx, const exchange *e, tsr_exchanger *x,
                               const tsr_vranks *vranks, uint64_t sums_bytes) {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    const tsr_vranks of = dealt(e, vranks);
    if (!e->sums) return gather(ctx, e, x, &of);
    const tsr_reduce_options options =
        tsr_vranks_divide(&of, options_of(e, sums_bytes), first_leaf);
    return x->kind->all_reduce(ctx, x, &options, e->bytes);
}

static uint64_t plan_exchange(const exchange *e, const tsr_transport *transport,
                              const tsr_vranks *vranks) {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    const tsr_vranks of = dealt(e, vranks);
    if (!e->sums) return tsr_vranks_plan_gather(&of, transport, e->count);
    const tsr_reduce_options options = tsr_vranks_divide(&of, options_of(e, 0), first_leaf);
    return tsr_all_reduce_plan(transport, &options);
}

uint64_t tsr_loop_plan_exchange(const tsr_loop *loop, const tsr_transport *transport,
                                const tsr_vranks *vranks) {
    uint64_t bytes = 0;
    if (vranks->rank_count == 1) return 0;
    for (uint32_t i = 0; i < loop->exchange_count; i++)
        bytes += plan_exchange(&loop->exchanges[i], transport, vranks);
    for (uint32_t i = 0; i < loop->step_count; i++)
        if (loop->steps[i].then) bytes += tsr_round_plan(loop->steps[i].then, transport, vranks);
    return bytes;
}

/* ---- gathers while the loop runs ---- */

bool tsr_loop_pushes(const tsr_loop *loop, const tsr_exchanger *exchanger) {
    return exchanger && exchanger->kind->push && exchanger->options.same_offsets &&
           loop->gather_count > 0;
}

tsr_result tsr_loop_offer(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                          const tsr_vranks *vranks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < loop->exchange_count; i++)
        if (!loop->exchanges[i].sums)
            loop->gathers[count++] = (tsr_transport_segment){
                loop->exchanges[i].bytes, loop->exchanges[i].count * vranks->total, true};
    return exchanger->kind->offer(ctx, exchanger, loop->gathers, count);
}

tsr_result tsr_loop_push(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                         const tsr_vranks *vranks, uint32_t vrank) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < loop->exchange_count; i++) {
        const exchange *e = &loop->exchanges[i];
        if (e->sums) continue;
        const tsr_vranks of = dealt(e, vranks);
        loop->gathers[count++] = (tsr_transport_segment){
            e->bytes + tsr_vranks_number(&of, vrank) * e->count, e->count, true};
    }
    return exchanger->kind->push(ctx, exchanger, loop->gathers, count);
}

static tsr_result collect(tsr_ctx *ctx, tsr_exchanger *exchanger, const tsr_vranks *vranks) {
    uint32_t pushes[TSR_TRANSPORT_RANKS_MAX];
    for (uint32_t r = 0; r < vranks->rank_count; r++)
        pushes[r] = tsr_vranks_first(vranks, r + 1) - tsr_vranks_first(vranks, r);
    return exchanger->kind->collect(ctx, exchanger, pushes);
}

tsr_result tsr_loop_exchange(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                             const tsr_vranks *vranks, uint64_t sums_bytes) {
    bool pushed = tsr_loop_pushes(loop, exchanger);
    for (uint32_t i = 0; exchanger && i < loop->exchange_count; i++)
        if (loop->exchanges[i].sums || !pushed)
            TRY(ctx, run_exchange(ctx, &loop->exchanges[i], exchanger, vranks, sums_bytes));
    return pushed ? collect(ctx, exchanger, vranks) : TSR_SUCCESS;
}

tsr_result tsr_loop_tell(tsr_ctx *ctx, const tsr_loop *loop, tsr_device *device,
                         const tsr_device_memory *memory, const tsr_loop_observer *observer) {
    for (uint32_t i = 0; observer->call && i < loop->result_count; i++) {
        const tsr_loop_result *result = &loop->results[i];
        TRY(ctx, tsr_device_download(ctx, device, memory, result->bytes, result->size_bytes));
        observer->call(observer->user, result);
    }
    return TSR_SUCCESS;
}
