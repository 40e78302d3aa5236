// A page whose stream the test drives.

/** A stream that the test drives, in place of the browser's. */
function streams() {
  window.streams = [];
  window.EventSource = class extends EventTarget {
    constructor(url) {
      super();
      this.url = String(url);
      window.streams.push(this);
    }

    close() {
      this.closed = true;
    }

    tell(name, data) {
      this.dispatchEvent(Object.assign(new Event(name), { data }));
    }
  };
  window.EventSource.CONNECTING = 0;
}

/** Opens a page whose stream is `streams()`. */
export async function driven(session, path) {
  await session.page.addInitScript(streams);
  return await session.go(path);
}
