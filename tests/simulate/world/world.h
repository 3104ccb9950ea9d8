/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated world: a clock that jumps from event to event, processes that take turns, and a log
 * of all their messages. Everything depends only on the seed, so a seed identifies a run.
 *
 * A process runs until it sleeps, waits for a message or accesses its disk. A killed process does
 * not notice: from then on all its operations fail at once and have no effect, until its main
 * function returns and its memory is freed.
 */
#ifndef TSR_TESTS_SIMULATE_WORLD_WORLD_H
#define TSR_TESTS_SIMULATE_WORLD_WORLD_H

#include "runtime/base/io/io.h"
#include "tests/simulate/world/dice.h"
#include "tests/simulate/world/fiber.h"
#include "tests/store/fault_io.h"

#include <stdio.h>

enum { SIM_NAME_BYTES = 112 };
#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S UINT64_C(1000000000)

typedef struct sim_world sim_world;
typedef struct sim_process sim_process;

typedef struct sim_message {
    uint32_t from;  /* pid of the sender; 0: the harness */
    bool inner;     /* sent by the harness: the training's message to its ranks */
    uint8_t *bytes; /* owned */
    size_t size_bytes;
} sim_message;

/* The current probabilities of faults, in millionths of all operations or messages. The first
 * fields concern the network: */
typedef struct sim_weather {
    uint32_t lose, repeat, damage;
    uint64_t delay_ns; /* maximum additional delay of a message; reorders messages */
    bool parted;       /* no message passes between the sides */
    /* Disk faults: */
    uint32_t error, short_write, misdirect;
    bool full;
    uint32_t slowness; /* factor by which the disk is slower; 0: 1 */
} sim_weather;

struct sim_process {
    sim_world *world;
    uint32_t pid;
    char name[32];
    void (*main)(sim_process *process);
    void *user;
    uint32_t index;         /* the user's: index of a rank */
    sim_process **peers;    /* the user's, freed with the process */
    sim_fiber *fiber;       /* NULL: the process has ended */
    bool dead, paused, due; /* due: it should have been woken while it was paused */
    bool waiting;           /* it waits for a message */
    uint64_t wake;          /* number of the valid wake-up */
    uint64_t ghost_steps;   /* steps taken since its death */
    unsigned side;          /* its side of a parted network */
    uint32_t answering;     /* pid of the sender of the message that it handles */
    sim_message *inbox;
    size_t inbox_count, inbox_capacity;
    tsr_io io; /* its disk */
    struct sim_file *files;
    size_t file_count, file_capacity;
    char spoiled[SIM_NAME_BYTES]; /* name of a misdirected, unpublished record; or "" */
    bool read_failed;             /* the last read failed, so the next one does not fail */
    tsr_ctx ctx;
};

/* Observes the events of the processes by the rules of the harness. */
typedef struct sim_watch {
    void *self;
    /* True if bytes of a generation that is being written may be misdirected. */
    bool (*may_damage)(void *self);
    /* Bytes were misdirected, or will be as soon as the record is published. */
    void (*damaged)(void *self, uint64_t generation, uint64_t epoch);
} sim_watch;

struct sim_world {
    uint64_t now_ns, until_ns;
    sim_dice dice;
    sim_weather weather;
    sim_watch watch;
    fault_io *disk;
    struct sim_event *events; /* a heap */
    size_t event_count, event_capacity;
    uint64_t event_number;
    sim_process **processes; /* indexed by pid - 1; includes dead processes */
    size_t process_count, process_capacity;
    sim_process *running; /* NULL: the world itself */
    bool stopped;
    const char *failure; /* the first violation that the world found, or NULL */
    char *log;
    size_t log_bytes, log_capacity;
    /* Counts of events. */
    uint64_t operation_count, message_count, lost_count, repeated_count, error_count, kill_count;
};

sim_world *sim_world_create(uint64_t seed);
void sim_world_destroy(sim_world *world);
/* Calls `call` at that time. Calls at the same time are made in the order in which they were
 * given. */
void sim_at(sim_world *world, uint64_t time_ns, void (*call)(void *user, uint64_t number),
            void *user, uint64_t number);
void sim_run(sim_world *world, uint64_t until_ns); /* or until `stopped` */
void sim_log(sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_fail(sim_world *world, const char *failure); /* keeps the first one, and stops */

/* Starts the process at once. `name` is copied. */
sim_process *sim_spawn(sim_world *world, const char *name, void (*main)(sim_process *process),
                       void *user);
bool sim_is_alive(const sim_process *process); /* neither dead nor ended */
void sim_kill(sim_process *process);
void sim_pause(sim_process *process);
void sim_continue(sim_process *process);
/* Kills every process. The disk keeps none or any part of the unsynced data. */
void sim_power_cut(sim_world *world, fault_crash crash);

/* The following functions are called by processes. */
void sim_sleep(sim_process *process, uint64_t duration_ns);
/* False: no message came in time, or the process is dead. The caller frees the bytes. */
bool sim_receive(sim_process *process, uint64_t timeout_ns, sim_message *out_message);

/* disk.c: the io table of a process. */
void sim_disk_attach(sim_process *process);
void sim_disk_detach(sim_process *process); /* closes its open files */
/* network.c */
void sim_send(sim_process *from, sim_process *to, const uint8_t *bytes, size_t size_bytes);
/* The message always arrives, soon and in order. */
void sim_tell(sim_world *world, sim_process *to, const uint8_t *bytes, size_t size_bytes);
void sim_deliver(sim_process *to, const sim_message *message); /* takes its bytes */
/* The event of a message in flight; it owns `user`. */
void sim_arrive(void *user, uint64_t number);
void sim_forget(void *user); /* frees a message that will not arrive */

#endif
