// Lighthouse through `warmpool tunnel --port PORT`: node lighthouse.mjs PAGE, with WARMPOOL_TUNNEL_PORT in the environment.
import lighthouse from 'lighthouse';

const options = { port: Number(process.env.WARMPOOL_TUNNEL_PORT), onlyCategories: ['seo'], logLevel: 'error' };
const { lhr } = await lighthouse(process.argv[2], options);
console.log('title:', lhr.audits['document-title'].score === 1 ? 'yes' : 'no');
