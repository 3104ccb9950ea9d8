/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages take time. While the weather is bad they are lost, repeated, damaged, delayed and
 * reordered, or do not pass from one side to the other.
 */
#include "tests/simulate/world/world.h"

#include <stdlib.h>
#include <string.h>

enum { SHORTEST_NS = 20000, JITTER_NS = 80000, TOLD_NS = 1000 };

typedef struct flight {
    sim_process *to;
    sim_message message;
} flight;

static void take_off(sim_process *to, uint64_t time_ns, uint32_t from, bool inner,
                     const uint8_t *bytes, size_t size_bytes) {
    flight *f = malloc(sizeof *f);
    uint8_t *copy = malloc(size_bytes + 1);
    if (!f || !copy) abort();
    memcpy(copy, bytes, size_bytes);
    *f = (flight){to, {.from = from, .inner = inner, .bytes = copy, .size_bytes = size_bytes}};
    sim_at(to->world, time_ns, sim_arrive, f, 0);
}

void sim_forget(void *user) {
    flight *f = user;
    free(f->message.bytes);
    free(f);
}

void sim_arrive(void *user, uint64_t number) {
    flight *f = user;
    (void)number;
    sim_deliver(f->to, &f->message);
    free(f);
}

static void send_once(sim_process *from, sim_process *to, const uint8_t *bytes, size_t size_bytes) {
    sim_world *world = from->world;
    const sim_weather *weather = &world->weather;
    uint64_t time = world->now_ns + SHORTEST_NS + sim_below(&world->dice, JITTER_NS);
    if (weather->delay_ns) time += sim_below(&world->dice, weather->delay_ns);
    if (sim_chance(&world->dice, weather->lose) || (weather->parted && from->side != to->side)) {
        world->lost_count++;
        return;
    }
    uint8_t *damaged = NULL;
    if (sim_chance(&world->dice, weather->damage)) {
        damaged = malloc(size_bytes + 1);
        if (!damaged) abort();
        memcpy(damaged, bytes, size_bytes);
        damaged[sim_below(&world->dice, size_bytes)] ^= (uint8_t)(1u << sim_below(&world->dice, 8));
        if (sim_chance(&world->dice, 200000)) size_bytes = sim_below(&world->dice, size_bytes);
    }
    take_off(to, time, from->pid, false, damaged ? damaged : bytes, size_bytes);
    free(damaged);
}

void sim_send(sim_process *from, sim_process *to, const uint8_t *bytes, size_t size_bytes) {
    sim_world *world = from->world;
    if (from->dead || !sim_is_alive(to)) return;
    world->message_count++;
    send_once(from, to, bytes, size_bytes);
    while (sim_chance(&world->dice, world->weather.repeat)) {
        world->repeated_count++;
        send_once(from, to, bytes, size_bytes);
    }
}

void sim_tell(sim_world *world, sim_process *to, const uint8_t *bytes, size_t size_bytes) {
    if (!sim_is_alive(to)) return;
    take_off(to, world->now_ns + TOLD_NS, 0, true, bytes, size_bytes);
}
