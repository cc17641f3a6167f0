// A page that was opened from disk may not start a Worker, in which the theme searches. Run its script in a hidden frame
// instead, with the few names of a Worker that the script uses. Served pages keep their Worker.
if (location.protocol === "file:") {
  globalThis.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      const load = source => new Promise((loaded, failed) => {
        const script = inside.document.createElement("script");
        Object.assign(script, {src: source, onload: loaded, onerror: failed});
        inside.document.body.append(script);
      });
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.ready = load(url);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
