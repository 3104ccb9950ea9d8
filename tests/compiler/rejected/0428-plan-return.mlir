// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
tsched.module {
  %g = tsched.fuse @f()
  "tsched.return"(%g) : (!tsched.value) -> ()
}
