/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with stacks of their own that can be suspended and resumed: a simulated process is
 * suspended in each of its file operations while the others run.
 */
#ifndef TSR_TESTS_SIMULATE_WORLD_FIBER_H
#define TSR_TESTS_SIMULATE_WORLD_FIBER_H

#include <stdbool.h>

typedef struct sim_fiber sim_fiber;

sim_fiber *sim_fiber_create(void (*run)(void *user), void *user);
void sim_fiber_enter(sim_fiber *fiber); /* runs it; not from within a fiber */
void sim_fiber_leave(sim_fiber *fiber); /* called within the fiber: returns to its caller */
bool sim_fiber_has_ended(const sim_fiber *fiber);
void sim_fiber_destroy(sim_fiber *fiber); /* the fiber must have ended */

#endif
