// Runs in a world of its own in each document, once the script that looks for challenges has begun there. The agent cannot
// call it: this asks for each order, and sends what came of it. `event` is where the page's own script listens.
(begun, event) => {
  if (!begun || !/^https?:$/.test(location.protocol)) return;
  const tell = async message => JSON.parse(await webkit.messageHandlers.captchas.postMessage(JSON.stringify(message)));
  const page = detail => {
    document.dispatchEvent(new CustomEvent(event, { detail }));
    return 'true';
  };
  const work = async () => {
    const number = await tell({ begun: location.href, isTop: self === top });
    addEventListener('pagehide', () => void tell({ gone: number }), { once: true });
    for (;;) {
      const order = await tell({ ready: number });
      if (order === null) return;
      const { id, method, argument } = order;
      // The next order may come before this one has its answer.
      const answer = Promise.resolve(method === 'page' ? page(argument) : captchas[method](argument));
      void answer.then(value => tell({ answered: number, id, value }));
    }
  };
  void work();
  // A document that its visitor left and came back to.
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) void work();
  });
}
