// What Lighthouse and its libraries take for granted, as Node has it everywhere. The build puts it into their modules.

export { Buffer } from 'buffer';
