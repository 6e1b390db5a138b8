// What the tests share: lines of TAP, and waiting for states.

import { setTimeout } from "node:timers/promises";
import assert from "node:assert/strict";

let count = 0;
let failed = 0;

export async function test(name, body) {
  count += 1;
  try {
    await body();
    console.log(`ok ${count} - ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${count} - ${name}\n${error.stack.replace(/^/gm, "# ")}`);
  }
}

export function finish() {
  console.log(`1..${count}`);
  process.exitCode = failed ? 1 : 0;
}

export async function until(what, seconds = 20) {
  for (const end = Date.now() + seconds * 1000; ; await setTimeout(10)) {
    const value = await what();
    if (value) return value;
    assert(Date.now() < end, `not within ${seconds} s: ${what}`);
  }
}
