// Starts Model Explorer's web app in this document: what it would ask a server for comes from the page's own data.
"use strict";
window.startViewer = async function (host, read, summary) {
  let [parts, graphs, overlays] = await Promise.all([read("viewer"), read("graphs"), read("overlays")]);
  for (const name of ["viewer", "overlays"]) document.getElementById(name).remove();
  const titles = Object.keys(overlays);
  const label = summary.module.replace(/[\/\\]/g, "|") || "module";
  const assetOf = (url) => {
    const match = /static_files\/([^?#]+)/.exec(String(url));
    return match && Object.hasOwn(parts.assets, match[1]) ? parts.assets[match[1]] : null;
  };
  const answer = (value) => ({ ok: true, status: 200, json: async () => value, text: async () => JSON.stringify(value) });
  const adapter = { fileExts: ["json"], type: "adapter", id: "builtin_json", name: "JSON adapter", description: "" };
  const bytes = (url) => Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
  window.fetch = async (resource) => {
    const url = String(resource.url || resource);
    const asset = assetOf(url);
    if (asset) return new Response(bytes(asset));
    if (url.includes("get_extensions")) return answer([adapter]);
    if (url.includes("load_graphs_json")) {
      const loaded = answer({ graphs });
      graphs = null; // the viewer keeps its own
      return loaded;
    }
    if (url.includes("load_node_data")) {
      const name = titles[Number(/node_data_index=(\d+)/.exec(url)[1])];
      const content = JSON.stringify(overlays[name]);
      overlays[name] = null;
      return answer({ content });
    }
    if (url.includes("check_new_version")) return answer({ version: "", runningVersion: "", desktopAppUrl: "" });
    return answer({});
  };
  window.EventSource = class extends EventTarget { close() {} };
  const source = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src");
  Object.defineProperty(HTMLImageElement.prototype, "src", {
    ...source,
    set(value) { source.set.call(this, assetOf(value) || value); },
  });
  const RealWorker = window.Worker;
  const program = URL.createObjectURL(new Blob([parts.worker], { type: "text/javascript" }));
  window.Worker = class extends RealWorker { constructor() { super(program); } };
  // A page has one address: what the app would write into it stays out.
  for (const name of ["pushState", "replaceState"]) {
    const real = history[name];
    history[name] = function (state, title) { return real.call(this, state, title); };
  }
  const request = {
    models: [{ url: "graphs://" + label + "/0" }],
    nodeData: titles.map((name, index) => "node_data://" + name.replaceAll("/", "|") + "/" + index),
    nodeDataTargets: titles.map(() => label),
  };
  // test_mode: groups open without being animated, and nothing is kept in the browser's storage.
  const options = "&renderer=webgl&show_open_in_new_tab=0&test_mode=1";
  window.viewerQuery = "?data=" + encodeURIComponent(JSON.stringify(request)) + options;
  window.drawGraph = drawer();
  const getContext = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...options) {
    const context = getContext.call(this, kind, ...options);
    if (context === null && kind.startsWith("webgl")) sayThatThereIsNoWebGL(host);
    return context;
  };
  const nonce = window.pageNonce;
  const append = (tag, text, type) => {
    const element = document.createElement(tag);
    if (type) element.type = type;
    element.nonce = nonce;
    element.textContent = text;
    document.head.append(element);
  };
  const base = document.createElement("base");
  base.href = location.pathname;
  document.head.prepend(base);
  append("style", parts.styles);
  host.append(document.createElement("app-root"));
  append("script", parts.polyfills, "module");
  append("script", parts.main, "module");
  parts = { assets: parts.assets };
};

// Without a graphics card frames take long: what is asked for between two frames is drawn once, and each is finished
// before the next begins, so that animations skip frames instead of queueing them.
function drawer() {
  const waiting = new Set(), pixel = new Uint8Array(4);
  let isSoftware = null;
  const draw = (service) => service.renderer.render(service.scene, service.camera);
  const drawWaiting = () => {
    const services = [...waiting].filter((service) => service.renderer && service.scene && service.camera);
    waiting.clear();
    for (const service of services) {
      draw(service);
      const gl = service.renderer.getContext();
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    }
  };
  return (service) => {
    if (isSoftware === null) {
      const gl = service.renderer.getContext(), names = gl.getExtension("WEBGL_debug_renderer_info");
      isSoftware = names !== null && /swiftshader|llvmpipe|software|basic render/i.test(gl.getParameter(names.UNMASKED_RENDERER_WEBGL));
    }
    if (!isSoftware) return draw(service);
    if (!waiting.size) requestAnimationFrame(drawWaiting);
    waiting.add(service);
  };
}

function sayThatThereIsNoWebGL(host) {
  const said = document.createElement("p");
  said.style.cssText = "font: 14px system-ui, sans-serif; margin: 24px";
  said.textContent = "The graph needs WebGL, which this browser does not offer. The other tabs show the rest.";
  setTimeout(() => host.replaceChildren(said));
}
