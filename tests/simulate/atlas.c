/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/atlas.h"

#include "runtime/base/array.h"
#include "runtime/state/names.h"
#include "tests/store/fault_state.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t weight;
} faults[] = {
#define X(id, name, weight) [SIM_FAULT_##id] = {name, weight},
    SIM_FAULTS(X)
#undef X
};

const char *sim_fault_name(sim_fault fault) { return faults[fault].name; }

/* ---- processes ---- */

/* Returns any live process, also one of an older run; NULL if no process lives. */
static sim_process *any_process(sim_world *world, bool coordinators) {
    sim_process *found = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < world->process_count; i++) {
        sim_process *process = world->processes[i];
        if (!sim_is_alive(process) || (process->peers != NULL) != coordinators) continue;
        if (sim_below(&world->dice, ++count) == 0) found = process;
    }
    return found;
}

static void wake_up(void *user, uint64_t number) {
    (void)number;
    sim_continue(user);
}

static void pause_one(sim_atlas *atlas, sim_process *process) {
    sim_world *world = atlas->job->world;
    if (!process) return;
    sim_pause(process);
    /* Some pauses are longer than any timeout. */
    uint64_t longest = sim_chance(&world->dice, 500000) ? SIM_S / 2 : 20 * SIM_MS;
    sim_at(world, world->now_ns + sim_below(&world->dice, longest), wake_up, process, 0);
}

/* ---- the medium ---- */

typedef struct victim {
    sim_job *job;
    char path[256];
    uint64_t generation, epoch, seen;
} victim;

/* Chooses among the manifests and segments of acknowledged generations. */
static void consider(void *user, const char *path) {
    victim *v = user;
    const char *file = strrchr(path, '/') + 1;
    tsr_name name = tsr_name_parse(file);
    char folder[64] = "";
    if (name.kind == TSR_NAME_SEGMENT) {
        const char *from = strstr(path, "/gen/");
        size_t length = from ? strcspn(from + 5, "/") : sizeof folder;
        if (length >= sizeof folder) return;
        memcpy(folder, from + 5, length);
        folder[length] = 0;
        name = tsr_name_parse(folder);
    } else if (name.kind != TSR_NAME_MANIFEST)
        return;
    for (size_t i = 0; i < v->job->copy_count; i++) {
        const sim_copy *copy = &v->job->copies[i];
        if (copy->generation != name.generation || copy->epoch != name.epoch ||
            !copy->acknowledged || copy->gone)
            continue;
        if (sim_below(&v->job->world->dice, ++v->seen)) continue;
        snprintf(v->path, sizeof v->path, "%s", path);
        v->generation = name.generation;
        v->epoch = name.epoch;
    }
}

static bool may_damage(void *self) {
    const sim_job *job = ((sim_atlas *)self)->job;
    return !sim_job_damaged_count(job) && sim_job_good_count(job) >= 2;
}

static void damaged(void *self, uint64_t generation, uint64_t epoch) {
    sim_job_damage(((sim_atlas *)self)->job, generation, epoch);
}

static fault_node *find_node(fault_io *disk, const char *path) {
    size_t size = 0;
    const uint8_t *bytes = fault_io_bytes(disk, path, &size);
    for (size_t i = 0; bytes && i < disk->node_count; i++)
        if (disk->nodes[i].now.data == bytes) return &disk->nodes[i];
    return NULL;
}

/* Removes every name of the node, also from the state after a crash. */
static void forget_node(fault_io *disk, const fault_node *node) {
    for (size_t i = 0; i < disk->node_count; i++) {
        fault_node *dir = &disk->nodes[i];
        for (size_t k = 0; k < dir->entry_count; k++)
            if (dir->entries[k].node == node - disk->nodes)
                dir->entries[k].live = dir->entries[k].durable = false;
        fault_forget(dir);
    }
}

static bool damage_medium(sim_atlas *atlas, bool remove) {
    sim_job *job = atlas->job;
    sim_world *world = job->world;
    victim v = {.job = job};
    if (!may_damage(atlas)) return false;
    fault_io_each_file(world->disk, consider, &v);
    if (!v.seen) return false;
    fault_node *node = find_node(world->disk, v.path);
    if (!node || (!node->now.size && !remove)) return false;
    sim_job_damage(job, v.generation, v.epoch);
    if (remove) {
        forget_node(world->disk, node);
        return true;
    }
    uint64_t at = sim_below(&world->dice, node->now.size);
    uint8_t bit = (uint8_t)(1u << sim_below(&world->dice, 8));
    node->now.data[at] ^= bit;
    if (at < node->synced.size) node->synced.data[at] ^= bit;
    return true;
}

/* ---- weather ---- */

static void set_weather(sim_atlas *atlas, sim_fault fault, bool bad) {
    sim_world *world = atlas->job->world;
    sim_weather *weather = &world->weather;
    uint32_t few = bad ? (uint32_t)sim_between(&world->dice, 2000, 50000) : 0;
    uint32_t many = bad ? (uint32_t)sim_between(&world->dice, 20000, 500000) : 0;
    switch (fault) {
    case SIM_FAULT_LOSE_MESSAGES:
        weather->lose = many;
        break;
    case SIM_FAULT_REPEAT_MESSAGES:
        weather->repeat = many;
        break;
    case SIM_FAULT_DAMAGE_MESSAGES:
        weather->damage = many;
        break;
    case SIM_FAULT_DELAY_MESSAGES:
        weather->delay_ns = bad ? sim_below(&world->dice, 60 * SIM_MS) : 0;
        break;
    case SIM_FAULT_PART_NETWORK:
        weather->parted = bad;
        break;
    case SIM_FAULT_DISK_ERRORS:
        weather->error = few;
        break;
    case SIM_FAULT_SHORT_WRITES:
        weather->short_write = many;
        break;
    case SIM_FAULT_FULL_DISK:
        weather->full = bad;
        break;
    case SIM_FAULT_SLOW_DISK:
        weather->slowness = bad ? (uint32_t)sim_between(&world->dice, 2, 40) : 0;
        break;
    case SIM_FAULT_MISDIRECT_WRITES:
        weather->misdirect = few;
        break;
    default:
        TSR_ASSERT(!"no weather");
    }
}

static void clear_up(void *user, uint64_t fault) {
    sim_atlas *atlas = user;
    if (!atlas->over) set_weather(atlas, (sim_fault)fault, false);
}

/* ---- drawing the faults ---- */

static void strike(sim_atlas *atlas, sim_fault fault) {
    sim_job *job = atlas->job;
    sim_world *world = job->world;
    atlas->counts[fault]++;
    switch (fault) {
    case SIM_FAULT_KILL_COORDINATOR:
    case SIM_FAULT_KILL_RANK: {
        sim_process *process = any_process(world, fault == SIM_FAULT_KILL_COORDINATOR);
        if (process) sim_kill(process);
        break;
    }
    case SIM_FAULT_PAUSE_COORDINATOR:
    case SIM_FAULT_PAUSE_RANK:
        pause_one(atlas, any_process(world, fault == SIM_FAULT_PAUSE_COORDINATOR));
        break;
    case SIM_FAULT_POWER_CUT:
        sim_power_cut(world, sim_chance(&world->dice, 300000) ? FAULT_LOSE : FAULT_MIX);
        break;
    case SIM_FAULT_CORRUPT_FILE:
    case SIM_FAULT_REMOVE_FILE:
        damage_medium(atlas, fault == SIM_FAULT_REMOVE_FILE);
        break;
    case SIM_FAULT_FORGET_LOCKS:
        fault_io_drop_locks(world->disk);
        break;
    default:
        set_weather(atlas, fault, true);
        sim_at(world, world->now_ns + sim_below(&world->dice, 150 * SIM_MS), clear_up, atlas,
               (uint64_t)fault);
    }
}

static void happen(void *user, uint64_t number) {
    sim_atlas *atlas = user;
    sim_world *world = atlas->job->world;
    uint32_t sum = 0;
    (void)number;
    if (atlas->over) return;
    for (int i = 0; i < SIM_FAULT_COUNT; i++) sum += atlas->weights[i];
    uint64_t at = sum ? sim_below(&world->dice, sum) : 0;
    for (int i = 0; sum && i < SIM_FAULT_COUNT; i++) {
        if (at < atlas->weights[i]) {
            strike(atlas, (sim_fault)i);
            break;
        }
        at -= atlas->weights[i];
    }
    sim_at(world, world->now_ns + sim_below(&world->dice, 2 * atlas->every_ns), happen, atlas, 0);
}

static uint32_t draw_ranks(sim_dice *dice) {
    static const uint32_t counts[] = {2, 2, 2, 3, 3, 4, 4, 5, 7, 8, 8, 12, 16, 24, 33, 64};
    return counts[sim_below(dice, TSR_COUNT(counts))];
}

void sim_atlas_draw(sim_atlas *atlas, sim_job *job, uint32_t ranks) {
    sim_dice *dice = &job->world->dice;
    job->rank_count = draw_ranks(dice);
    if (ranks) job->rank_count = ranks;
    job->keep = (uint32_t)sim_between(dice, 2, 4);
    job->shape = sim_roll(dice);
    job->interval_ns = sim_between(dice, 5, 40) * SIM_MS;
    job->resend_ns = sim_between(dice, 2, 20) * SIM_MS;
    job->deadline_ns = sim_between(dice, 40, 200) * SIM_MS;
    job->patience_ns = job->deadline_ns * sim_between(dice, 2, 4);
    job->locks_work = sim_chance(dice, 500000);
    job->addresses_shared = sim_chance(dice, 300000);
    job->calm = sim_chance(dice, 200000);
    fault_io_set_direct(job->world->disk, (fault_direct)sim_below(dice, 3));
    atlas->job = job;
    atlas->every_ns = sim_between(dice, 3, 60) * SIM_MS;
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        atlas->weights[i] =
            sim_chance(dice, 600000) ? (uint32_t)sim_between(dice, 1, faults[i].weight) : 0;
    /* Working locks are never forgotten. */
    if (job->locks_work) atlas->weights[SIM_FAULT_FORGET_LOCKS] = 0;
    job->world->watch = (sim_watch){.self = atlas, .may_damage = may_damage, .damaged = damaged};
}

void sim_atlas_start(sim_atlas *atlas) {
    sim_at(atlas->job->world, atlas->job->world->now_ns + atlas->every_ns, happen, atlas, 0);
}

void sim_atlas_end(sim_atlas *atlas) {
    sim_job *job = atlas->job;
    sim_world *world = job->world;
    atlas->over = true;
    world->weather = (sim_weather){0};
    job->calm = true;
    for (size_t i = 0; i < world->process_count; i++) {
        sim_process *process = world->processes[i];
        bool newest = process == job->coordinator;
        for (uint32_t k = 0; k < job->rank_count; k++) newest |= process == job->ranks[k];
        if (!newest) sim_kill(process);
        sim_continue(process);
    }
}
