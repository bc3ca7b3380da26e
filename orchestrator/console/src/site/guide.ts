// A guide.

import { prepareContents } from './contents';

prepareContents();
