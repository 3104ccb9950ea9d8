/* SPDX-License-Identifier: Apache-2.0
 *
 * What was probably meant, where a name is unknown: added to the diagnostic's text and as a fix-it.
 */
#ifndef TSR_COMPILER_FIXIT_H
#define TSR_COMPILER_FIXIT_H

#include "compiler/diag.h"

/* A record whose text ends in "; did you mean 'NAME'?" gets a fix-it: NAME instead of the word that
 * is wrong (the one it is about; else the last that the text quotes before), as it stands in the
 * source line from the record's column on; none where that could be one of several. One about an
 * unknown op, value or symbol first gets such an end, if a registered op, or a name of the source,
 * is near. */
void tsr_diag_add_fix(tsr_diag_list *list, tsr_diag *diag);

#endif
