// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
func.func private @f() { return }
%g = tsched.fuse @f() {source = "me"}
