/* SPDX-License-Identifier: Apache-2.0
 *
 * Substitutes for the environment of the protocol in a real run: the training, which decides the
 * next step; the memory of a rank; and a supervisor, which notices deaths late and sometimes
 * mistakes a sleeping process for a dead one.
 */
#include "tests/simulate/job.h"

#include "runtime/base/array.h"
#include "runtime/commit/coordinator.h"
#include "runtime/commit/rank.h"
#include "runtime/store/read.h"
#include "tests/simulate/model.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_PER_SAVE = 10, FAILURES_MAX = 3 };
static const uint64_t tick_ns = 2 * SIM_MS, look_ns = 7 * SIM_MS, wait_ns = 50 * SIM_MS;

/* ---- the known generations ---- */

static sim_copy *find_copy(sim_job *job, uint64_t generation, uint64_t epoch) {
    for (size_t i = 0; i < job->copy_count; i++)
        if (job->copies[i].generation == generation && job->copies[i].epoch == epoch)
            return &job->copies[i];
    if (job->copy_count == job->copy_capacity) {
        job->copies = tsr_grow(job->copies, &job->copy_capacity, 64, sizeof *job->copies);
        if (!job->copies) abort();
    }
    sim_copy *copy = &job->copies[job->copy_count++];
    *copy = (sim_copy){.generation = generation, .epoch = epoch};
    return copy;
}

size_t sim_job_good_count(const sim_job *job) {
    size_t count = 0;
    for (size_t i = 0; i < job->copy_count; i++) {
        const sim_copy *copy = &job->copies[i];
        count += copy->acknowledged && !copy->damaged && !copy->gone;
    }
    return count;
}

size_t sim_job_damaged_count(const sim_job *job) {
    size_t count = 0;
    for (size_t i = 0; i < job->copy_count; i++)
        count += job->copies[i].damaged && !job->copies[i].gone;
    return count;
}

void sim_job_damage(sim_job *job, uint64_t generation, uint64_t epoch) {
    sim_copy *copy = find_copy(job, generation, epoch);
    if (copy->damaged) return;
    copy->damaged = true;
    sim_log(job->world,
            "{\"who\":\"world\",\"event\":\"damage\",\"generation\":%" PRIu64 ",\"of\":%" PRIu64
            "}",
            generation, epoch);
}

/* Updates the known generations from a line that a process logged. */
static void observe(sim_job *job, const char *line) {
    uint64_t epoch = 0, generation = 0;
    const char *at = strstr(line, "\"epoch\":");
    if (at) epoch = strtoull(at + 8, NULL, 10);
    if (strstr(line, "\"event\":\"ack\"")) {
        at = strstr(line, "\"generation\":");
        if (at) generation = strtoull(at + 13, NULL, 10);
        find_copy(job, generation, epoch)->acknowledged = true;
        job->acknowledged_count++;
        job->changed_ns = job->world->now_ns;
    }
    at = strstr(line, "\"name\":\"MANIFEST.");
    if (strstr(line, "\"event\":\"unlink\"") && at) {
        char *end;
        generation = strtoull(at + 17, &end, 10);
        find_copy(job, generation, strtoull(end + 1, NULL, 10))->gone = true;
    }
}

static uint64_t now_ns(void *self) { return ((sim_process *)self)->world->now_ns; }

static void event(void *self, const char *line) {
    sim_process *process = self;
    if (process->dead) return;
    sim_log(process->world, "%s", line);
    observe(process->user, line);
}

/* ---- the coordinator's process ---- */

static void send_to_rank(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes) {
    sim_process *process = self;
    sim_job *job = process->user;
    TSR_ASSERT(rank < job->rank_count);
    sim_process *to = job->addresses_shared ? job->ranks[rank] : process->peers[rank];
    sim_send(process, to, bytes, size_bytes);
}

/* Sends the training step to all ranks. */
static void train(sim_process *process, uint64_t step) {
    sim_job *job = process->user;
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(step >> 8 * i);
    for (uint32_t i = 0; i < job->rank_count; i++)
        sim_tell(process->world, process->peers[i], bytes, sizeof bytes);
}

typedef struct lead {
    tsr_coordinator *coordinator;
    sim_model *model;
    uint64_t step, next_ns;
    unsigned failures; /* consecutive */
    bool planned;
} lead;

static void save_if_due(sim_process *process, lead *l) {
    sim_job *job = process->user;
    tsr_coordinator *c = l->coordinator;
    if (c->phase != TSR_PHASE_IDLE) return;
    if (!l->planned) {
        l->planned = true;
        if (c->recovery.found) l->step = c->recovery.generation.position.step;
        if (tsr_coordinator_plan(&process->ctx, c, &l->model->plan).code) {
            l->failures = FAILURES_MAX;
            return;
        }
    }
    if (process->world->now_ns < l->next_ns) return;
    l->step += STEPS_PER_SAVE;
    l->next_ns = process->world->now_ns + job->interval_ns;
    train(process, l->step);
    /* Most of the time all ranks have reached the step. */
    sim_sleep(process, sim_below(&process->world->dice, SIM_MS / 2));
    tsr_position position = sim_model_position(l->step);
    if (tsr_coordinator_save(&process->ctx, c, &position).code) l->failures++;
}

static void lead_main(sim_process *process) {
    sim_job *job = process->user;
    lead l = {.model = sim_model_create(job->rank_count, job->shape)};
    const tsr_store_program program = {.bundle_hash = l.model->plan.token.bundle_hash};
    tsr_coordinator_options options = {.size_bytes = sizeof options,
                                       .directory = SIM_DIRECTORY,
                                       .rank_count = job->rank_count,
                                       .keep = job->keep,
                                       .choice = {.mode = TSR_RESUME_AUTO, .program = &program},
                                       .resend_ns = job->resend_ns,
                                       .deadline_ns = job->deadline_ns,
                                       .outside = {.self = process,
                                                   .now_ns = now_ns,
                                                   .send = send_to_rank,
                                                   .event = event,
                                                   .process_id = process->pid,
                                                   .nonce = process->pid}};
    tsr_result result = tsr_coordinator_open(&process->ctx, &options, &l.coordinator);
    while (!result.code && !process->dead && l.failures < FAILURES_MAX &&
           l.coordinator->phase != TSR_PHASE_STOPPED) {
        sim_message message;
        uint64_t before = l.coordinator->committed_count;
        tsr_phase phase = l.coordinator->phase;
        tsr_result done;
        save_if_due(process, &l);
        if (sim_receive(process, tick_ns, &message)) {
            done = tsr_coordinator_receive(&process->ctx, l.coordinator, message.bytes,
                                           message.size_bytes);
            free(message.bytes);
        } else
            done = tsr_coordinator_tick(&process->ctx, l.coordinator);
        /* A failed opening ends the process; a failed save counts toward the limit of three. */
        if (done.code && (phase == TSR_PHASE_RECOVERING || phase == TSR_PHASE_COUNTING)) break;
        if (done.code) l.failures++;
        if (l.coordinator->committed_count > before) l.failures = 0;
    }
    if (!result.code) tsr_coordinator_close(&process->ctx, l.coordinator);
    sim_model_destroy(l.model);
}

/* ---- a rank's process ---- */

typedef struct follow {
    sim_process *process;
    sim_model *model;
    tsr_rank *rank;
    tsr_part part;
    uint64_t step;  /* step of the staged data */
    uint64_t epoch; /* epoch of the last AGREE that the rank obeyed */
    int root, gens;
    tsr_reader *reader;
    uint8_t *buffer;
    void **destinations; /* pointers into `buffer`, one per tensor */
} follow;

static uint64_t staged_step(void *user) { return ((follow *)user)->step; }

static const uint8_t *segment_bytes(void *user, uint32_t segment) {
    const follow *f = user;
    return f->model->staging + f->model->starts[segment];
}

static void hash_begin(void *user, tsr_part part) {
    follow *f = user;
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
        tsr_chunk_row *chunk = &f->model->plan.chunks[i];
        chunk->digest = tsr_hash_tree(sim_model_chunk(f->model, chunk), chunk->size_bytes);
    }
}
static void hash_end(void *user) { (void)user; }

/* Makes memory for all tensors of a manifest; compare_with_model() checks the part that was
 * read. */
static void **make_destinations(follow *f, const tsr_manifest *manifest) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        size += manifest->tensors[i].shape.dims[0];
    f->buffer = realloc(f->buffer, (size_t)size + 1);
    f->destinations =
        realloc(f->destinations, (manifest->tensor_count + 1) * sizeof *f->destinations);
    if (!f->buffer || !f->destinations) abort();
    size = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        f->destinations[i] = f->buffer + size;
        size += manifest->tensors[i].shape.dims[0];
    }
    return f->destinations;
}

static void compare_with_model(const follow *f, const tsr_manifest *manifest, tsr_part part) {
    for (uint32_t i = 0, chunk = 0; i < manifest->tensor_count; i++)
        for (uint32_t k = 0; k < manifest->tensors[i].chunk_count; k++, chunk++) {
            const uint8_t *bytes = (const uint8_t *)f->destinations[i];
            if (chunk >= part.first && chunk < part.first + part.count &&
                !sim_model_is(&manifest->tensors[i], &manifest->chunks[chunk],
                              manifest->token.position.step, bytes))
                sim_fail(f->process->world, "what verifies is not of the step its manifest states");
        }
}

static tsr_result verify(tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part,
                         tsr_purpose purpose) {
    follow *f = user;
    void **destinations = make_destinations(f, manifest);
    TRY(ctx, tsr_read_sizes(ctx, f->gens, manifest));
    TRY(ctx, tsr_read_part(ctx, f->reader, f->gens, manifest, part, destinations,
                           purpose == TSR_PURPOSE_READ_BACK));
    compare_with_model(f, manifest, part);
    return TSR_SUCCESS;
}

static void send_to_coordinator(void *self, uint32_t rank, const uint8_t *bytes,
                                size_t size_bytes) {
    sim_process *process = self;
    sim_world *world = process->world;
    (void)rank;
    if (!process->answering) return;
    sim_send(process, world->processes[process->answering - 1], bytes, size_bytes);
}

/* Opens the store. Called when a coordinator has sent a message, since the directory exists
 * then. */
static bool open_store(sim_process *process, follow *f) {
    const tsr_io *io = &process->io;
    f->root = io->open(process, TSR_IO_CWD, SIM_DIRECTORY, O_RDONLY | O_DIRECTORY, 0);
    if (f->root < 0) return false;
    f->gens = io->open(process, f->root, "gen", O_RDONLY | O_DIRECTORY, 0);
    return f->gens >= 0;
}

static bool become_rank(sim_process *process, follow *f) {
    sim_job *job = process->user;
    if (!open_store(process, f)) return false;
    tsr_rank_options options = {.size_bytes = sizeof options,
                                .rank = process->index,
                                .rank_count = job->rank_count,
                                .root = f->root,
                                .gens = f->gens,
                                .data = {.user = f,
                                         .step = staged_step,
                                         .segment = segment_bytes,
                                         .hash_begin = hash_begin,
                                         .hash_end = hash_end,
                                         .verify = verify},
                                .outside = {.self = process,
                                            .now_ns = now_ns,
                                            .send = send_to_coordinator,
                                            .event = event,
                                            .process_id = process->pid,
                                            .nonce = process->pid}};
    f->part = tsr_part_of(f->model->plan.chunk_count, process->index, job->rank_count);
    return !tsr_rank_create(&process->ctx, &options, &f->rank).code &&
           !tsr_rank_plan(&process->ctx, f->rank, &f->model->plan).code;
}

static void stage(follow *f, uint64_t step) {
    f->step = step;
    sim_model_stage(f->model, step, f->part.first, f->part.count);
}

static void obey(sim_process *process, follow *f, const sim_message *message) {
    if (message->inner) {
        uint64_t step = 0;
        for (size_t i = 0; i < 8; i++) step |= (uint64_t)message->bytes[i] << 8 * i;
        if (f->rank->agreed) stage(f, step);
        return;
    }
    tsr_rank_receive(&process->ctx, f->rank, message->bytes, message->size_bytes);
}

static void follow_main(sim_process *process) {
    sim_job *job = process->user;
    follow f = {.process = process,
                .model = sim_model_create(job->rank_count, job->shape),
                .reader = tsr_reader_create(),
                .root = -1,
                .gens = -1};
    bool failed = !f.reader;
    while (!process->dead && !failed) {
        sim_message message;
        if (!sim_receive(process, wait_ns, &message)) continue;
        if (!f.rank && !message.inner) failed = !become_rank(process, &f);
        if (f.rank && !failed) obey(process, &f, &message);
        free(message.bytes);
    }
    tsr_rank_destroy(f.rank);
    if (f.gens >= 0) process->io.close(process, f.gens);
    if (f.root >= 0) process->io.close(process, f.root);
    free(f.buffer);
    free(f.destinations);
    tsr_reader_destroy(f.reader);
    sim_model_destroy(f.model);
}

/* ---- the supervisor ---- */

static void start_ranks(sim_job *job) {
    char name[32];
    for (uint32_t i = 0; i < job->rank_count; i++) {
        snprintf(name, sizeof name, "rank %u", i);
        job->ranks[i] = sim_spawn(job->world, name, follow_main, job);
        job->ranks[i]->index = i;
        job->ranks[i]->side = (unsigned)sim_below(&job->world->dice, 2);
    }
}

static void start_coordinator(sim_job *job) {
    if (!job->locks_work) fault_io_drop_locks(job->world->disk);
    job->coordinator = sim_spawn(job->world, "coordinator", lead_main, job);
    job->coordinator->peers = malloc(job->rank_count * sizeof(sim_process *));
    if (!job->coordinator->peers) abort();
    memcpy(job->coordinator->peers, job->ranks, job->rank_count * sizeof(sim_process *));
    job->changed_ns = job->world->now_ns;
    job->started_count++;
}

static bool are_ranks_alive(const sim_job *job) {
    for (uint32_t i = 0; i < job->rank_count; i++)
        if (!sim_is_alive(job->ranks[i])) return false;
    return true;
}

static void kill_all(sim_job *job) {
    for (size_t i = 0; i < job->world->process_count; i++) sim_kill(job->world->processes[i]);
}

static void look(void *user, uint64_t number) {
    sim_job *job = user;
    sim_world *world = job->world;
    (void)number;
    bool hung = world->now_ns - job->changed_ns > job->patience_ns;
    bool ranks = are_ranks_alive(job), leader = sim_is_alive(job->coordinator);
    if (!ranks || !leader || hung) {
        /* Otherwise the remaining processes continue, as if they were unreachable. */
        if (job->calm || sim_chance(&world->dice, 500000)) kill_all(job);
        if (!are_ranks_alive(job) || (hung && sim_chance(&world->dice, 500000))) start_ranks(job);
        start_coordinator(job);
    }
    sim_at(world, world->now_ns + look_ns + sim_below(&world->dice, look_ns), look, job, 0);
}

void sim_job_start(sim_job *job) {
    start_ranks(job);
    start_coordinator(job);
    sim_at(job->world, job->world->now_ns + look_ns, look, job, 0);
}

void sim_job_finish(sim_job *job) { free(job->copies); }
