/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/world/world.h"

#include "runtime/base/array.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { GHOST_STEPS_MAX = 100000 };

struct sim_event {
    uint64_t time_ns, order, number;
    void (*call)(void *user, uint64_t number);
    void *user;
};

static void *grown(void *memory, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return memory;
    memory = tsr_grow(memory, capacity, 16, size);
    if (!memory) abort();
    return memory;
}

/* ---- events: a binary heap by time, then by number ---- */

static bool is_before(const struct sim_event *a, const struct sim_event *b) {
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void swap(struct sim_event *a, struct sim_event *b) {
    struct sim_event c = *a;
    *a = *b;
    *b = c;
}

void sim_at(sim_world *world, uint64_t time_ns, void (*call)(void *user, uint64_t number),
            void *user, uint64_t number) {
    world->events =
        grown(world->events, world->event_count, &world->event_capacity, sizeof *world->events);
    struct sim_event *e = world->events;
    size_t i = world->event_count++;
    e[i] = (struct sim_event){time_ns, world->event_number++, number, call, user};
    for (; i && is_before(&e[i], &e[(i - 1) / 2]); i = (i - 1) / 2) swap(&e[i], &e[(i - 1) / 2]);
}

static struct sim_event take_first(sim_world *world) {
    struct sim_event *e = world->events, first = e[0];
    size_t count = --world->event_count;
    e[0] = e[count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < count; k++)
            if (is_before(&e[k], &e[least])) least = k;
        if (least == i) return first;
        swap(&e[i], &e[least]);
        i = least;
    }
}

void sim_run(sim_world *world, uint64_t until_ns) {
    world->until_ns = until_ns;
    while (world->event_count && !world->stopped && world->events[0].time_ns <= until_ns) {
        struct sim_event event = take_first(world);
        world->now_ns = event.time_ns;
        event.call(event.user, event.number);
    }
    if (!world->stopped) world->now_ns = until_ns;
}

void sim_log(sim_world *world, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    while (world->log_capacity < world->log_bytes + (size_t)length + 2) {
        world->log = tsr_grow(world->log, &world->log_capacity, 1 << 16, 1);
        if (!world->log) abort();
    }
    vsnprintf(world->log + world->log_bytes, (size_t)length + 1, format, arguments);
    va_end(arguments);
    world->log_bytes += (size_t)length;
    world->log[world->log_bytes++] = '\n';
}

void sim_fail(sim_world *world, const char *failure) {
    if (!world->failure) world->failure = failure;
    world->stopped = true;
}

/* ---- processes ---- */

static void enter(sim_process *process) {
    if (!process->fiber) return;
    sim_process *before = process->world->running;
    process->world->running = process;
    sim_fiber_enter(process->fiber);
    process->world->running = before;
    if (!sim_fiber_has_ended(process->fiber)) return;
    sim_disk_detach(process);
    sim_fiber_destroy(process->fiber);
    process->fiber = NULL;
}

static void wake(void *user, uint64_t number) {
    sim_process *process = user;
    if (process->dead || process->wake != number) return;
    if (process->paused)
        process->due = true;
    else
        enter(process);
}

static void run_main(void *user) {
    sim_process *process = user;
    process->main(process);
}

sim_process *sim_spawn(sim_world *world, const char *name, void (*main)(sim_process *process),
                       void *user) {
    sim_process *process = calloc(1, sizeof *process);
    if (!process) abort();
    *process = (sim_process){.world = world, .main = main, .user = user};
    process->pid = (uint32_t)world->process_count + 1;
    snprintf(process->name, sizeof process->name, "%s", name);
    process->fiber = sim_fiber_create(run_main, process);
    world->processes = grown(world->processes, world->process_count, &world->process_capacity,
                             sizeof *world->processes);
    world->processes[world->process_count++] = process;
    sim_disk_attach(process);
    sim_at(world, world->now_ns, wake, process, ++process->wake);
    return process;
}

bool sim_is_alive(const sim_process *process) {
    return process && !process->dead && process->fiber;
}

static void drop_inbox(sim_process *process) {
    for (size_t i = 0; i < process->inbox_count; i++) free(process->inbox[i].bytes);
    process->inbox_count = 0;
}

void sim_kill(sim_process *process) {
    if (!sim_is_alive(process)) return;
    process->world->kill_count++;
    sim_log(process->world, "{\"who\":\"world\",\"event\":\"kill\",\"pid\":%u,\"name\":\"%s\"}",
            process->pid, process->name);
    process->dead = true;
    sim_disk_detach(process);
    drop_inbox(process);
    enter(process);
    if (process->fiber) sim_fail(process->world, "a process does not end when everything fails");
}

void sim_pause(sim_process *process) {
    if (sim_is_alive(process)) process->paused = true;
}

void sim_continue(sim_process *process) {
    if (!process->paused) return;
    process->paused = false;
    if (process->due && sim_is_alive(process))
        sim_at(process->world, process->world->now_ns, wake, process, ++process->wake);
    process->due = false;
}

void sim_power_cut(sim_world *world, fault_crash crash) {
    sim_log(world, "{\"who\":\"world\",\"event\":\"power\",\"kept\":\"%s\"}",
            crash == FAULT_LOSE ? "what was synced" : "any part");
    for (size_t i = 0; i < world->process_count; i++) sim_kill(world->processes[i]);
    fault_io_crash(world->disk, crash, sim_roll(&world->dice));
}

/* Returns to the world until the process is woken. */
static void yield(sim_process *process) {
    if (process->dead) {
        process->ghost_steps++;
        TSR_ASSERT(process->ghost_steps < GHOST_STEPS_MAX);
        return;
    }
    sim_fiber_leave(process->fiber);
}

void sim_sleep(sim_process *process, uint64_t duration_ns) {
    sim_world *world = process->world;
    uint64_t until = world->now_ns + duration_ns;
    if (process->dead) {
        yield(process);
        return;
    }
    /* No event comes before that, so no other process needs to run. */
    if (!process->paused && (!world->event_count || world->events[0].time_ns > until) &&
        until <= world->until_ns) {
        world->now_ns = until;
        return;
    }
    sim_at(world, until, wake, process, ++process->wake);
    yield(process);
}

bool sim_receive(sim_process *process, uint64_t timeout_ns, sim_message *out_message) {
    sim_world *world = process->world;
    if (!process->inbox_count && !process->dead) {
        process->waiting = true;
        sim_at(world, world->now_ns + timeout_ns, wake, process, ++process->wake);
    }
    if (!process->inbox_count) yield(process);
    process->waiting = false;
    if (process->dead || !process->inbox_count) return false;
    *out_message = process->inbox[0];
    memmove(process->inbox, process->inbox + 1, --process->inbox_count * sizeof *process->inbox);
    process->answering = out_message->from;
    return true;
}

void sim_deliver(sim_process *to, const sim_message *message) {
    if (!sim_is_alive(to)) {
        free(message->bytes);
        return;
    }
    to->inbox = grown(to->inbox, to->inbox_count, &to->inbox_capacity, sizeof *to->inbox);
    to->inbox[to->inbox_count++] = *message;
    if (!to->waiting) return;
    to->waiting = false;
    sim_at(to->world, to->world->now_ns, wake, to, ++to->wake);
}

/* ---- the world ---- */

sim_world *sim_world_create(uint64_t seed) {
    sim_world *world = calloc(1, sizeof *world);
    if (!world) abort();
    world->dice.state = seed;
    world->disk = fault_io_create();
    return world;
}

void sim_world_destroy(sim_world *world) {
    for (size_t i = 0; i < world->process_count; i++) {
        sim_process *process = world->processes[i];
        world->stopped = true;
        process->dead = true;
        sim_disk_detach(process);
        drop_inbox(process);
        enter(process);
        free(process->inbox);
        free(process->files);
        free(process->peers);
        free(process);
    }
    free(world->processes);
    for (size_t i = 0; i < world->event_count; i++)
        if (world->events[i].call == sim_arrive) sim_forget(world->events[i].user);
    free(world->events);
    free(world->log);
    fault_io_destroy(world->disk);
    free(world);
}
