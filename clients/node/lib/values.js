// How values of JavaScript become arguments of SQL functions.

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A body as text if it can be, because a queue of JSON takes no bytes; otherwise as a Buffer. */
export function bodyOf(body) {
  let text = body;
  if (body instanceof Uint8Array) {
    try {
      text = utf8.decode(body);
    } catch {
      return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    }
    if (text.includes("\0")) return Buffer.from(text);
  } else if (typeof body !== "string") {
    text = JSON.stringify(body);
    if (text === undefined) {
      throw new TypeError(`a body of type ${typeof body} cannot be sent: give a string, bytes or a value that JSON can say`);
    }
  }
  return text;
}

/** Seconds as an interval; null: the default. */
export function interval(seconds, name) {
  if (seconds === undefined || seconds === null) return null;
  if (typeof seconds !== "number" || !(seconds >= 0) || seconds === Infinity) {
    throw new TypeError(`${name} is ${seconds}, and must be a number of seconds, such as 60`);
  }
  return seconds === 0 ? null : `${seconds.toFixed(6)} s`;
}

export function textOf(value) {
  return value === undefined || value === null ? null : String(value);
}

export function headersOf(headers) {
  if (headers === undefined || headers === null) return null;
  const wrong = Object.keys(headers).find((name) => typeof headers[name] !== "string");
  if (wrong !== undefined) {
    throw new TypeError(`header ${wrong} is of type ${typeof headers[wrong]}, and must be a string: say String(…)`);
  }
  return JSON.stringify(headers);
}

/** Refuses options that do not exist, or a misspelt one would be ignored. */
export function checkNames(options, names, what) {
  const wrong = Object.keys(options).find((name) => !names.includes(name));
  if (wrong !== undefined) {
    throw new TypeError(`${what} has no option ${wrong}: it has ${names.join(", ")}`);
  }
}

export function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done);
  });
}
