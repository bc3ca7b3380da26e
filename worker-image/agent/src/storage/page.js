// Reads or writes what an origin keeps, in a document or a sandbox of that origin. A function of a JSON text, which
// promises another one.
//
//   {"read": {"session": bool, "limit": bytes, "message": bytes}}  -> {"at", "origin": …, "partly": bool, "skipped": [sentence]}
//   {"write": origin, "session": bool}                             -> {"skipped": [sentence]}
//
// "origin" has the members of Playwright's storageState, and "sessionStorage"; "at" says whose document it was, and "partly" whether
// something is there that may be read another time. "message", if it is there, is how long the answer may be in a message of
// DevTools. What JSON cannot hold is encoded as Playwright encodes it: {d} is a date, {bi} a big integer, {a}, {o}, {m}, {s} are lists, objects, maps and sets,
// {ref} is one of these that came before, and so on.
(async text => {
  const request = JSON.parse(text);
  const skipped = [];
  let skips = 0;
  /** Says what is left out; not of everything, since a page may have as much as it likes. */
  function skip(what) {
    skips += 1;
    if (skips <= 20) skipped.push(what.slice(0, 300).toWellFormed());
  }
  let partly = false;

  const ARRAYS = {
    i8: Int8Array, ui8: Uint8Array, ui8c: Uint8ClampedArray, i16: Int16Array, ui16: Uint16Array, i32: Int32Array,
    ui32: Uint32Array, f32: Float32Array, f64: Float64Array, bi64: BigInt64Array, bui64: BigUint64Array,
  };
  const kindOf = value => Object.prototype.toString.call(value).slice(8, -1);
  const isPlain = value => {
    const prototype = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  };

  /** Base64 of bytes, in pieces that fit on the stack. */
  function toBase64(view) {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    let binary = "";
    for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(binary);
  }

  function fromBase64(text) {
    return Uint8Array.from(atob(text), char => char.charCodeAt(0));
  }

  /** Whether JSON holds a value as it is. */
  function isJson(value, above = new Set()) {
    if (value === null || typeof value === "boolean" || typeof value === "string") return true;
    if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
    if (typeof value !== "object" || above.has(value)) return false;
    if (!Array.isArray(value) && (kindOf(value) !== "Object" || !isPlain(value))) return false;
    above.add(value);
    // A list with holes has fewer members than its length says.
    const members = Array.isArray(value) ? [...value] : Object.values(value);
    const holds = !Object.hasOwn(value, "__proto__") && members.every(member => isJson(member, above));
    above.delete(value);
    return holds;
  }

  /** A value as Playwright encodes it; throws for what only its own browser can hold, such as a key that may not leave it. */
  function encode(value, seen = new Map()) {
    if (value === undefined) return { v: "undefined" };
    if (value === null) return { v: "null" };
    if (typeof value === "bigint") return { bi: value.toString() };
    if (typeof value === "number") {
      return Number.isFinite(value) && !Object.is(value, -0) ? value : { v: Object.is(value, -0) ? "-0" : String(value) };
    }
    if (typeof value !== "object") return value;
    if (seen.has(value)) return { ref: seen.get(value) };
    const kind = kindOf(value);
    switch (kind) {
      case "Date": return { d: value.toJSON() };
      case "RegExp": return { r: { p: value.source, f: value.flags } };
      case "Error": return { e: { n: value.name, m: value.message, s: value.stack ?? "" } };
      case "ArrayBuffer": return { ab: { b: toBase64(new Uint8Array(value)) } };
    }
    for (const [k, type] of Object.entries(ARRAYS)) if (kind === type.name) return { ta: { b: toBase64(value), k } };
    const id = seen.size + 1;
    seen.set(value, id);
    switch (kind) {
      case "Array": return { a: Array.from(value, item => encode(item, seen)), id };
      case "Map": return { m: Array.from(value, ([k, v]) => ({ k: encode(k, seen), v: encode(v, seen) })), id };
      case "Set": return { s: Array.from(value, item => encode(item, seen)), id };
      case "Object": return { o: Object.keys(value).map(k => ({ k, v: encode(value[k], seen) })), id };
    }
    throw new Error(`it holds a ${kind}, which cannot leave its browser`);
  }

  function decode(value, seen = new Map()) {
    if (typeof value !== "object" || value === null) return value;
    if ("ref" in value) return seen.get(value.ref);
    if ("v" in value) return { null: null, NaN, Infinity, "-Infinity": -Infinity, "-0": -0 }[value.v];
    if ("d" in value) return new Date(value.d);
    if ("u" in value) return value.u;
    if ("bi" in value) return BigInt(value.bi);
    if ("e" in value) return Object.assign(new Error(value.e.m), { name: value.e.n, stack: value.e.s });
    if ("r" in value) return new RegExp(value.r.p, value.r.f);
    if ("ab" in value) return fromBase64(value.ab.b).buffer;
    if ("ta" in value) return new ARRAYS[value.ta.k](fromBase64(value.ta.b).buffer);
    const keep = made => {
      seen.set(value.id, made);
      return made;
    };
    if ("a" in value) {
      const list = keep([]);
      for (const item of value.a) list.push(decode(item, seen));
      return list;
    }
    if ("m" in value) {
      const map = keep(new Map());
      for (const { k, v } of value.m) map.set(decode(k, seen), decode(v, seen));
      return map;
    }
    if ("s" in value) {
      const set = keep(new Set());
      for (const item of value.s) set.add(decode(item, seen));
      return set;
    }
    if ("o" in value) {
      const object = keep({});
      // Not by assignment: a member may be called "__proto__".
      for (const { k, v } of value.o) {
        Object.defineProperty(object, k, { value: decode(v, seen), configurable: true, enumerable: true, writable: true });
      }
      return object;
    }
    throw new Error("an encoded value of an unknown kind");
  }

  const done = asked =>
    new Promise((resolve, reject) => {
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error);
    });

  const paths = keyPath => ({
    keyPath: typeof keyPath === "string" ? keyPath : undefined,
    keyPathArray: keyPath !== null && typeof keyPath === "object" ? [...keyPath] : undefined,
  });

  /** Bytes that may still be read. */
  let left = request.read?.limit ?? 0;
  function spend(bytes) {
    left -= bytes;
    if (left < 0) throw new RangeError("it is larger than a state may be");
  }

  /** Items of local or session storage. JSON carries no text that ends in the middle of a character. */
  function readItems(storage) {
    const items = [];
    for (let at = 0; at < storage.length; at++) {
      const name = storage.key(at);
      const value = storage.getItem(name) ?? "";
      if (!name.isWellFormed() || !value.isWellFormed()) {
        skip(`the item ${name}, which is no text of Unicode`);
        continue;
      }
      spend(name.length + value.length);
      items.push({ name, value });
    }
    return items;
  }

  function writeItems(kind, storage, items) {
    try {
      for (const { name, value } of items) storage().setItem(name, value);
    } catch (error) {
      skip(`${kind}: ${error.message}`);
    }
  }

  /** One member of a record, plain or encoded. */
  function part(name, value) {
    const written = isJson(value) ? { [name]: value } : { [`${name}Encoded`]: encode(value) };
    spend(JSON.stringify(written).length);
    return written;
  }

  /** A store as it is, one record after another: all at once might not fit into memory. */
  function readStore(database, store) {
    const { name, autoIncrement, keyPath } = store;
    const records = [];
    const indexes = Array.from(store.indexNames, name => {
      const { keyPath, multiEntry, unique } = store.index(name);
      return { name, ...paths(keyPath), multiEntry, unique };
    });
    const read = { name, autoIncrement, ...paths(keyPath), records, indexes };
    return new Promise((resolve, reject) => {
      const cursor = store.openCursor();
      cursor.onerror = () => reject(cursor.error);
      cursor.onsuccess = () => {
        const at = cursor.result;
        if (!at) return resolve(read);
        try {
          records.push({ ...(keyPath === null ? part("key", at.primaryKey) : {}), ...part("value", at.value) });
        } catch (error) {
          if (error instanceof RangeError) return reject(error);
          skip(`a record of the store ${name} of the database ${database}: ${error.message}`);
        }
        at.continue();
      };
    });
  }

  /** A database as it is; null where its names are no texts of Unicode. */
  async function readDatabase({ name, version }) {
    const database = await done(indexedDB.open(name));
    // Pages that want to change it do not wait for this.
    database.onversionchange = () => database.close();
    try {
      const names = [...database.objectStoreNames];
      const transaction = names.length > 0 ? database.transaction(names, "readonly") : null;
      const stores = await Promise.all(names.map(at => readStore(name, transaction.objectStore(at))));
      let isText = true;
      JSON.stringify([name, stores.map(({ records, ...store }) => store)], (_, value) => {
        if (typeof value === "string" && !value.isWellFormed()) isText = false;
        return value;
      });
      if (!isText) {
        skip(`the database ${name}, whose names are no texts of Unicode`);
        return null;
      }
      return { name, version, stores };
    } finally {
      database.close();
    }
  }

  /** Makes a database with its records, in the one transaction that makes its stores. */
  async function writeDatabase({ name, version, stores }) {
    const opening = indexedDB.open(name, version);
    let failure = null;
    opening.onupgradeneeded = () => {
      const { result: database, transaction } = opening;
      transaction.onabort = () => (failure ??= transaction.error);
      try {
        for (const { name, autoIncrement, keyPath, keyPathArray, indexes, records } of stores) {
          const store = database.createObjectStore(name, { autoIncrement, keyPath: keyPathArray ?? keyPath ?? null });
          for (const { name, keyPath, keyPathArray, multiEntry, unique } of indexes) {
            store.createIndex(name, keyPathArray ?? keyPath, { multiEntry, unique });
          }
          for (const record of records) {
            const value = "value" in record ? record.value : decode(record.valueEncoded);
            const key = "keyEncoded" in record ? decode(record.keyEncoded) : record.key;
            store.put(value, key ?? undefined);
          }
        }
      } catch (error) {
        failure = error;
        transaction.abort();
      }
    };
    try {
      (await done(opening)).close();
    } catch (error) {
      throw failure ?? error;
    }
  }

  /** The root of the origin's private files; null where there are none: in a page that came by plain http, or in an old engine. */
  async function privateRoot() {
    const manager = globalThis.navigator?.storage ?? globalThis.storage;
    return manager?.getDirectory ? manager.getDirectory() : null;
  }

  /** Private files below a directory, each directory before what is in it. */
  async function readFiles(directory, above, read) {
    const entries = [];
    for await (const entry of directory.entries()) entries.push(entry);
    entries.sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [name, handle] of entries) {
      const path = above + name;
      if (!name.isWellFormed()) {
        skip(`the private file ${path}, whose name is no text of Unicode`);
        continue;
      }
      spend(path.length);
      if (handle.kind === "directory") {
        read.push({ path, type: "directory" });
        await readFiles(handle, `${path}/`, read);
        continue;
      }
      try {
        const file = await handle.getFile();
        spend(Math.ceil(file.size / 3) * 4);
        read.push({ path, type: "file", base64: toBase64(new Uint8Array(await file.arrayBuffer())) });
      } catch (error) {
        if (error instanceof RangeError) throw error;
        // A page has it open.
        partly = true;
        skip(`the private file ${path}: ${error.message}`);
      }
    }
    return read;
  }

  async function writeFiles(entries) {
    const root = await privateRoot();
    if (!root) throw new Error("this page may have none");
    for (const { path, type, base64 } of entries) {
      const names = path.split("/");
      const name = names.pop();
      let directory = root;
      for (const above of names) directory = await directory.getDirectoryHandle(above, { create: true });
      if (type === "directory") {
        await directory.getDirectoryHandle(name, { create: true });
        continue;
      }
      const handle = await directory.getFileHandle(name, { create: true });
      const writable = await handle.createWritable();
      await writable.write(fromBase64(base64));
      await writable.close();
    }
  }

  /** How long a text is as a string of DevTools, which has six bytes for what is not ASCII; or something beyond `most`. */
  function escapedLength(text, most) {
    if (text.length * 6 <= most) return 0;
    let length = 0;
    for (let at = 0; at < text.length && length <= most; at++) {
      const code = text.charCodeAt(at);
      length += code < 32 || code > 126 ? 6 : code === 34 || code === 92 ? 2 : 1;
    }
    return length;
  }

  const local = () => globalThis.localStorage;
  const session = () => globalThis.sessionStorage;

  if (request.write) {
    const { localStorage: items = [], sessionStorage: own = [], indexedDB: databases = [], opfs: files = [] } = request.write;
    if (request.session) writeItems("session storage", session, own);
    writeItems("local storage", local, items);
    for (const database of databases) {
      await writeDatabase(database).catch(error => skip(`the database ${database.name}: ${error.message}`));
    }
    if (files.length > 0) await writeFiles(files).catch(error => skip(`private files: ${error.message}`));
    return JSON.stringify({ skipped });
  }

  // A page that did not load, or that is sandboxed, has no origin and keeps nothing.
  if (globalThis.origin === "null") return JSON.stringify({ at: "null" });
  const origin = { origin: "", localStorage: local() ? readItems(local()) : [] };
  if (request.read.session) origin.sessionStorage = readItems(session());
  const databases = await indexedDB.databases();
  origin.indexedDB = (await Promise.all(databases.map(readDatabase))).filter(database => database);
  const root = await privateRoot().catch(() => null);
  // Where they are too large, the rest of the origin, with its logins, is read all the same.
  origin.opfs = [];
  if (root) {
    try {
      origin.opfs = await readFiles(root, "", []);
    } catch (error) {
      partly = true;
      skip(`private files: ${error.message}`);
    }
  }
  if (skips > skipped.length) skipped.push(`${skips - skipped.length} things more`);
  // A page cannot change what this says, unlike the window's own member.
  const answer = JSON.stringify({ at: globalThis.location?.origin, origin, partly, skipped });
  const { message } = request.read;
  if (message !== undefined && escapedLength(answer, message) > message) {
    throw new RangeError("it is larger than a state may be");
  }
  return answer;
})
