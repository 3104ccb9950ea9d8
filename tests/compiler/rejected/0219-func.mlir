// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func private @external()
