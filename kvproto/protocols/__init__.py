from ._ask import *
from .layer import *
from .leaf import *
from .swa import *
from .transferable import *
