// The upload page: dropping files or a folder, and how far the sending is. Without this file the form still sends.
//
// A dropped folder goes as one tar, made here of the files as they are: a browser sends a file's name
// without its folders, and the folders say what a file is evidence of.
(() => {
  "use strict";
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const drop = form.querySelector("[data-drop]");
  const chosen = form.querySelector("[data-drop-chosen]");
  const problem = document.getElementById("upload-problem");
  const progress = form.querySelector("[data-upload-progress]");
  const cancel = form.querySelector("[data-upload-cancel]");
  const says = form.querySelector("[data-upload-says]");
  const send = form.querySelector("button[type=submit]");
  let dropped = null; // {files: [[path, File]], tar: whether the paths matter}
  let request = null;

  const size = (bytes) => (bytes >= 1 << 20 ? `${(bytes / (1 << 20)).toFixed(1)} MiB` : `${Math.ceil(bytes / 1024)} KiB`);
  const refuse = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
  };

  // --- what was dropped -------------------------------------------------------------------------

  const entriesOf = (folder) => {
    const reader = folder.createReader();
    const some = () => new Promise((done, fail) => reader.readEntries(done, fail));
    const all = async (found) => {
      const more = await some();
      return more.length ? all(found.concat(more)) : found;
    };
    return all([]);
  };
  const most = 20000;
  const walk = async (entry, found) => {
    if (found.length > most) throw new Error(`More than ${most.toLocaleString("en")} files.`);
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail));
      found.push([entry.fullPath.replace(/^\/+/, ""), file]);
    } else {
      for (const inside of await entriesOf(entry)) await walk(inside, found);
    }
  };

  // One header of a tar: name, mode, size, time, kind, sum. A longer name goes before it as a file of its own kind.
  const bytes = new TextEncoder();
  const header = (name, length, kind) => {
    const block = new Uint8Array(512);
    const put = (text, at) => block.set(bytes.encode(text), at);
    block.set(bytes.encode(name).slice(0, 100), 0);
    put("0000644\0", 100);
    put("0000000\0", 108);
    put("0000000\0", 116);
    put(`${length.toString(8).padStart(11, "0")}\0`, 124);
    put("00000000000\0", 136);
    put("        ", 148);
    put(kind, 156);
    put("ustar\0" + "00", 257);
    put(`${block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `, 148);
    return block;
  };
  const padding = (length) => new Uint8Array((512 - (length % 512)) % 512);
  const tar = (files) => {
    const parts = [];
    for (const [path, file] of files) {
      const name = bytes.encode(path);
      if (name.length > 100) parts.push(header("././@LongLink", name.length, "L"), name, padding(name.length));
      parts.push(header(path, file.size, "0"), file, padding(file.size));
    }
    parts.push(new Uint8Array(1024));
    return new Blob(parts, { type: "application/x-tar" });
  };

  const show = () => {
    if (!dropped) {
      chosen.textContent = "";
      return;
    }
    const sum = dropped.files.reduce((total, [, file]) => total + file.size, 0);
    const number = dropped.files.length;
    chosen.textContent = `${number === 1 ? dropped.files[0][0] : `${number.toLocaleString("en")} files`}, ${size(sum)}`;
  };

  form.querySelector("[data-drop-hint]").hidden = false;
  for (const kind of ["dragenter", "dragover"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", (event) => {
    if (!drop.contains(event.relatedTarget)) drop.classList.remove("over");
  });
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    refuse("");
    const entries = Array.from(event.dataTransfer.items, (item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const plain = Array.from(event.dataTransfer.files, (file) => [file.name, file]);
    const folders = entries.some((entry) => entry && entry.isDirectory);
    try {
      const found = [];
      if (folders) for (const entry of entries) if (entry) await walk(entry, found);
      dropped = { files: folders ? found : plain, tar: folders || plain.length > 50 };
      input.required = false;
      input.value = "";
    } catch (error) {
      dropped = null;
      refuse(`The folder could not be read: ${error.message}`);
    }
    show();
  });
  input.addEventListener("change", () => {
    dropped = null;
    input.required = true;
    refuse("");
    show();
  });

  // --- sending ------------------------------------------------------------------------------------

  const body = () => {
    const data = new FormData(form);
    if (dropped) {
      data.delete("files");
      if (dropped.tar) {
        data.append("files", tar(dropped.files), "dropped.tar");
      } else {
        for (const [name, file] of dropped.files) data.append("files", file, name);
      }
    }
    return data;
  };
  const over = (text) => {
    request = null;
    progress.hidden = true;
    cancel.hidden = true;
    send.disabled = false;
    refuse(text);
    if (text) problem.scrollIntoView({ block: "nearest" });
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (request) return;
    const data = body();
    const sum = data.getAll("files").reduce((total, file) => total + file.size, 0);
    if (sum > Number(form.dataset.most)) {
      over(`${size(sum)} is more than the ${form.dataset.mostWords} that are taken at once.`);
      return;
    }
    refuse("");
    const bar = progress.querySelector("progress");
    bar.value = 0;
    says.textContent = "Sending";
    progress.hidden = false;
    cancel.hidden = false;
    send.disabled = true;
    request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (sent) => {
      if (!sent.lengthComputable) return;
      bar.value = sent.loaded / sent.total;
      says.textContent = `Sending: ${size(sent.loaded)} of ${size(sent.total)}`;
    });
    request.upload.addEventListener("load", () => {
      bar.removeAttribute("value");
      cancel.hidden = true; // what was sent is being stored
      says.textContent = "Sent. The files are being read";
    });
    request.addEventListener("load", () => {
      const answer = request.response;
      if (request.status === 200 && answer && answer.page) {
        window.location.assign(answer.page);
      } else if (answer && answer.error) {
        over(answer.error);
      } else {
        over(`The server answered ${request.status}. Nothing may have been stored: look at the list before trying again.`);
      }
    });
    request.addEventListener("error", () => over("The connection broke. If the upload was very large, the server may have refused it."));
    request.addEventListener("abort", () => over("Cancelled: nothing was stored."));
    request.open("POST", form.action);
    request.responseType = "json";
    request.setRequestHeader("X-Requested-With", "upload");
    request.send(data);
  });
  cancel.addEventListener("click", () => request && request.abort());
})();
