/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the op to which a position in a source belongs, and how that op is written.
 */
#ifndef TSR_COMPILER_DIAG_FORM_H
#define TSR_COMPILER_DIAG_FORM_H

#include <stddef.h>

/* Returns the form of the op of dialect `tessera` whose text contains the position, or ends before
 * it with nothing but blanks and comments between; NULL if there is none. `text` ends with a NUL.
 */
const char *tsr_form_find(const char *text, size_t position);

#endif
