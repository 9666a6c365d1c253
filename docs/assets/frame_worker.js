// A Worker for pages that are read from files: browsers refuse the real one there, so its script runs in a hidden frame.
// The search of the theme is its only user; the page's <base> resolves the script's URL.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.early = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.scope.importScripts = (...urls) => Promise.all(urls.map((script) => this.load(script)));
      this.load(url).then(() => {
        this.early.forEach((data) => this.deliver(data));
        this.early = null;
      });
    }

    load(url) {
      const script = this.scope.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      return new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${script.src}`));
        this.scope.document.body.appendChild(script);
      });
    }

    deliver(data) {
      this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.early) this.early.push(data);
      else this.deliver(data);
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {
      this.scope.frameElement.remove();
    }
  };
}
