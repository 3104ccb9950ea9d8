/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with a stack of their own, that stop in the middle and go on later: a simulated process
 * stops in each of its file operations while the others run.
 */
#ifndef TSR_TESTS_SIMULATE_WORLD_FIBER_H
#define TSR_TESTS_SIMULATE_WORLD_FIBER_H

#include <stdbool.h>

typedef struct sim_fiber sim_fiber;

sim_fiber *sim_fiber_create(void (*run)(void *user), void *user);
void sim_fiber_enter(sim_fiber *fiber); /* until it leaves or ends; not from within a fiber */
void sim_fiber_leave(sim_fiber *fiber); /* from within: back to who entered it */
bool sim_fiber_has_ended(const sim_fiber *fiber);
void sim_fiber_destroy(sim_fiber *fiber); /* of one that has ended */

#endif
