// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-handlers -tessera-inline-regions -tessera-resilience-restart -split-input-file --no-output %s 2>&1 | FileCheck %s

func.func @f() {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0611] tessera.resilience.on_failure: handler '@g' is not a function of the module
  tessera.resilience.on_failure(handler = @g)
  return
}

// -----

func.func @g(%x: tensor<f32>) {
  return
}
func.func @f() {
  // CHECK: [TSR-0611] tessera.resilience.on_recovery: handler '@g' has arguments or results
  tessera.resilience.on_recovery(handler = @g)
  return
}

// -----

func.func @g() attributes {tessera.entry = "train"} {
  return
}
func.func @f() {
  // CHECK: [TSR-0611] tessera.resilience.on_recovery: handler '@g' is an entry
  tessera.resilience.on_recovery(handler = @g)
  return
}

// -----

func.func @g() {
  tessera.resilience.on_recovery(handler = @g)
  return
}
func.func @f() {
  // CHECK: [TSR-0611] tessera.resilience.on_recovery: handler '@g' holds regions, events or tokens
  tessera.resilience.on_recovery(handler = @g)
  return
}

// -----

func.func @g() {
  return
}
func.func @f() {
  tessera.resilience.on_recovery(handler = @g)
  // CHECK: [TSR-0611] tessera.resilience.on_recovery: there is a handler already
  tessera.resilience.on_recovery(handler = @g)
  return
}

// -----

func.func @f() {
  %t = tessera.resilience.region {
    // CHECK: [TSR-0603] tessera.resilience.region: is inside another region of resilience
    %u = tessera.resilience.region {
    } : !tessera_sr.token
  } : !tessera_sr.token
  return
}

// -----

func.func @f() {
  %t = tessera.resilience.region {name = "a"} {
  } : !tessera_sr.token
  // CHECK: [TSR-0603] tessera.resilience.region: another region of the function has this name
  %u = tessera.resilience.region {name = "a"} {
  } : !tessera_sr.token
  return
}

// -----

func.func @f(%x: tensor<f32>) attributes {tessera.entry = "eval"} {
  %t, %a = tessera.resilience.region {
    tessera.yield %x : tensor<f32>
  } : !tessera_sr.token, tensor<f32>
  // CHECK: [TSR-0610] tessera.target.export: only a train entry exports
  tessera.target.export %t : !tessera_sr.token
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  %t, %a = tessera.resilience.region {
    tessera.yield %x : tensor<f32>
  } : !tessera_sr.token, tensor<f32>
  // CHECK: [TSR-0610] tessera_sr.leave: an exported value belongs to the state: it must be a parameter
  tessera.target.export %t : !tessera_sr.token
  return
}

// -----

// The order of the source is the order: what is imported is what was exported the step before.
func.func @f(%x: tensor<f32>) {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
  %t, %a = tessera.resilience.region {name = "a"} {
    tessera.yield %x : tensor<f32>
  } : !tessera_sr.token, tensor<f32>
  tessera.target.export %t : !tessera_sr.token
  // CHECK: [TSR-0610] tessera.target.import: comes after the export of its region
  %u, %b = tessera.target.import "a" : !tessera_sr.token, tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
  %o = tessera.opt.state "a.export.0" of "w" kind "export" init = #tessera.constant<0.0> : tensor<f32>
  %y = tessera.exp %o : tensor<f32>
  %t, %a = tessera.resilience.region {name = "a"} {
    tessera.yield %x : tensor<f32>
  } : !tessera_sr.token, tensor<f32>
  // CHECK: [TSR-0610] tessera_sr.leave: its tensor is read elsewhere in the function; import it
  tessera.target.export %t : !tessera_sr.token
  return
}

// -----

// An order that is broken is no program: the token that a leave takes is made behind it.
func.func @f() {
  // CHECK: error: {{.*}}operand #0 does not dominate this use
  %l = tessera_sr.leave "a"(%e) : (!async.token) -> !async.token
  %e = tessera_sr.enter "a"() {mode = "replay"} : () -> !async.token
  return
}

// -----

func.func @f(%x: tensor<f32>, %t: !async.token) {
  // CHECK: [TSR-0610] tessera_sr.export_begin: takes one tensor for each value and returns one token
  %e = tessera_sr.export_begin "a"(%x, %t) : (tensor<f32>, !async.token) -> !async.token
  return
}

// -----

func.func @f(%x: tensor<f32>, %t: !async.token) {
  // CHECK: [TSR-0610] tessera_sr.leave: a tensor comes after a token
  %e = tessera_sr.leave "a"(%t, %x) : (!async.token, tensor<f32>) -> !async.token
  return
}

// -----

func.func @f(%x: tensor<f32>, %t: !async.token) {
  // CHECK: [TSR-0610] tessera_sr.leave: yields more than 12 values
  %e = tessera_sr.leave "a"(%x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %t) : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, !async.token) -> !async.token
  return
}

// -----
func.func @f() {
  %e = tessera_sr.enter "a"() {mode = "replay"} : () -> !tessera_sr.token
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera_sr.enter: a region that is open is not left
  %g = tessera_sr.enter "b"() {mode = "replay"} : () -> !tessera_sr.token
  return
}

// -----
func.func @f() {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera_sr.leave: no region is open
  %l = tessera_sr.leave "a"() : () -> !tessera_sr.token
  return
}

// -----
func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera.target.import: a value has no static type
  %t, %v = tessera.target.import "a" : !tessera_sr.token, tensor<?xf32>
  return
}

// -----
func.func @f(%t: !tessera_sr.token) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera.target.export: needs the token of a region
  tessera.target.export %t : !tessera_sr.token
  return
}

// -----
func.func @f() {
  %t = tessera.resilience.region {name = "a"} {
  } : !tessera_sr.token
  tessera.target.export %t : !tessera_sr.token
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera.target.export: the region is exported already
  tessera.target.export %t : !tessera_sr.token
  return
}

// -----
func.func @f() {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera.target.import: returns more values than a region can yield
  %t, %v:13 = tessera.target.import "a" : !tessera_sr.token, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  return
}

// -----
func.func @f() {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0610] tessera_sr.enter: the region is not left
  %e = tessera_sr.enter "a"() {mode = "replay"} : () -> !tessera_sr.token
  return
}
