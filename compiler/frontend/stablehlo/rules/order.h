/* SPDX-License-Identifier: Apache-2.0
 *
 * What sort takes from other files.
 */
#ifndef TSR_COMPILER_STABLEHLO_ORDER_H
#define TSR_COMPILER_STABLEHLO_ORDER_H

#include "compiler/frontend/stablehlo/rules.h"

/* elementwise.c: integers whose order is the total order of the floats: -NaN, -inf … -0, 0 … inf,
 * NaN. */
MlirValue tsr_hlo_total_order(tsr_hlo_call *c, MlirValue x);
/* attributes.c: true if both ops have the same attributes, where constants count by value. */
bool tsr_hlo_same_attrs(MlirOperation a, MlirOperation b);

#endif
