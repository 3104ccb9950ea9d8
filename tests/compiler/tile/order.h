/* SPDX-License-Identifier: Apache-2.0
 *
 * A reference interpreter of the orders that compiler/tile/tile.h specifies: the result of a
 * reduction or a product, bit by bit, for every kernel that computes it.
 */
#ifndef TSR_TESTS_COMPILER_TILE_ORDER_H
#define TSR_TESTS_COMPILER_TILE_ORDER_H

#include <stddef.h>

/* Combines two partial results and rounds to the type. */
typedef double order_combine(const void *user, double x, double y);

/* Reduces values[0 … count): 64 partial results and halving; for more than 16,384 values, chunks of
 * 2,048 and a binary tree. */
double order_reduce(const double *values, size_t count, double identity, order_combine *combine,
                    const void *user);
/* Steps first ... first + count - 1 of a product: one chain of multiply-adds from 0. */
typedef double order_chain(const void *user, size_t first, size_t count);
/* A product: one chain; for more than 2,048 steps, chains of 256, whose sums are added in groups of
 * 32, and the sums of groups likewise. */
double order_product(size_t steps, order_chain *chain, order_combine *add, const void *user);

#endif
